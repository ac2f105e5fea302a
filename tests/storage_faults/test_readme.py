"""The example of the README runs, with a log of lines in the place of a store."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LOG = Path("/log")


async def send_messages(world, acknowledged):
    """A hundred lines, each synced before it counts."""
    file = world.files.open(LOG, create=True)
    world.files.sync_dir(LOG.parent)
    for number in range(100):
        line = b"%09d\n" % number
        file.pwrite(line, 10 * number)
        await world.workers.run(file.datasync)
        acknowledged.append(line)


async def read_messages(world):
    data = world.files.read(LOG) if world.files.stat(LOG) is not None else b""
    return data.splitlines(keepends=True)


def test_the_example_of_the_readme_runs(capsys):
    text = (ROOT / "plugins" / "storage_faults" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {"send_messages": send_messages, "read_messages": read_messages}
    exec(compile(code, "README.md", "exec"), names)
    for seed in range(100):
        names["test_what_was_acknowledged_survives_a_power_cut"](seed)
    said = capsys.readouterr().out
    assert "pages: 0 kept, 1 lost, 0 torn" in said
    assert "the process ends in this call" in said


def test_every_member_of_the_plan_is_described():
    from gantrymq_storage_faults import FaultPlan

    text = (ROOT / "plugins" / "storage_faults" / "README.md").read_text()
    for member in FaultPlan.__attrs_attrs__:
        assert f"`{member.name}`" in text, member.name
