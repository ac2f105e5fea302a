"""A large file: read beside the loop, which serves requests meanwhile."""

import asyncio
import time
from types import SimpleNamespace

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import AuthorizerContext
from gantrymq.world.real import real_world
from gantrymq_access_plain.authorizer import PlainAuthorizer
from gantrymq_access_plain.settings import SETTINGS

ACCOUNTS = 10_000
LONGEST_STEP_S = 0.02
ROUNDS = 5  # under load the loop's thread may not get a processor when it could have the interpreter
ONE = """\
- accessKey: account{0:05}
  secretKey: secret-of-{0:05}
  topicPerms:
  - Topic{0:05}=PUB|SUB
  - Common=SUB
"""


async def load(home):
    """Load the file; return the rules, and the longest step of the loop in CPU time of this process."""
    steps = []

    async def ticking():
        before = time.process_time()
        while True:
            await asyncio.sleep(0)
            now = time.process_time()
            steps.append(now - before)
            before = now

    world = real_world()
    settings = Settings([*SETTINGS, Setting.text("authorizer", "", "")], {"aclHome": str(home)})
    authorizer = PlainAuthorizer(AuthorizerContext(world, settings))
    ticker = asyncio.create_task(ticking())
    await authorizer.start(SimpleNamespace(access=SimpleNamespace(forget=lambda: None)))
    await authorizer.stop()
    ticker.cancel()
    await world.workers.close()
    return authorizer.rules, max(steps)


def test_ten_thousand_accounts_load_without_holding_the_loop(tmp_path):
    text = "accounts:\n" + "".join(ONE.format(number) for number in range(ACCOUNTS))
    assert len(text) > 1_000_000
    file = tmp_path / "conf" / "plain_acl.yml"
    file.parent.mkdir()
    file.write_text(text)
    file.chmod(0o600)
    longest = []
    for _ in range(ROUNDS):
        rules, step_s = asyncio.run(load(tmp_path))
        assert len(rules.accounts) == ACCOUNTS
        longest.append(step_s)
        if step_s < LONGEST_STEP_S:
            return
    raise AssertionError(f"the loop was held for {longest} s of CPU time")
