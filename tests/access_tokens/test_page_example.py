"""The example of docs/plugins/hooks/gantry_register_authorizers.md, in a running broker."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from gantrymq.client import Client, Credentials, Message, NoPermission
from gantrymq.errors import GantryError
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import simulate

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "hooks" / "gantry_register_authorizers.md"
USERS = Path("/users")


@pytest.fixture
def run():
    """``run(main, lines)`` runs ``await main(cluster)`` with a broker whose authorizer is the example."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text().split("\n## Example\n")[1], re.DOTALL)
    example = ModuleType("example")
    exec(compile(code, str(PAGE), "exec"), vars(example))

    def run(main, lines):
        async def with_cluster(world):
            world.files.replace(USERS, lines.encode())
            settings = {"authorizer": "user_file", "userFile": str(USERS), "store": "memory"}
            cluster = Cluster(world, Path("/gantrymq"), settings, [example])
            try:
                await cluster.start()
                await main(cluster)
            finally:
                await cluster.stop()
                await world.workers.close()

        simulate(1, with_cluster)

    return run


def client_of(cluster, name, secret):
    return Client(cluster.namesrv, world=cluster.world, credentials=Credentials(name, secret))


async def send(client):
    return await client.producer("PG").send(Message("Orders", b"one"))


def test_users_do_what_they_may_until_the_file_changes(run):
    async def main(cluster):
        async with client_of(cluster, "shop", "s1") as shop, client_of(cluster, "audit", "s2") as audit:
            assert (await send(shop)).ok
            with pytest.raises(NoPermission, match="audit has no permission to access Topic:Orders: Pub"):
                await send(audit)
            async with audit.consumer("audits", "Orders", consume_from="first") as consumer:
                assert (await anext(aiter(consumer))).body == b"one"
            async with client_of(cluster, "shop", "wrong") as wrong:
                with pytest.raises(NoPermission, match="the signature is wrong"):
                    await send(wrong)
            for lines in (b"a line with more words", b"audit s2 reader"):
                cluster.world.files.replace(USERS, lines)
                await cluster.world.clock.sleep(3)
                if lines.startswith(b"audit"):
                    with pytest.raises(NoPermission, match="no user has this access key"):
                        await send(shop)
                else:
                    assert (await send(shop)).ok

    run(main, "shop s1\naudit s2 reader\n")


def test_a_wrong_line_stops_the_start(run):
    with pytest.raises(GantryError, match=r"userFile=/users: line 2 is not NAME SECRET"):
        run(None, "shop s1\nnothing\n")
