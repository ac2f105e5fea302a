"""The example of docs/plugins/raw_log.md keeps a copy equal to an original."""

import asyncio
import re
from pathlib import Path

import pytest

from gantrymq.config import Settings
from gantrymq.interfaces import StoreContext
from gantrymq.world.real import real_world
from gantrymq_storage_memory import MemoryStore
from gantrymq_testing.store_contract_bench import message

PAGE = Path(__file__).resolve().parents[2] / "docs/plugins/raw_log.md"


@pytest.fixture(scope="module")
def example():
    text = PAGE.read_text().split("## Example\n")[1].split("\n## ")[0]
    found = {}
    exec(compile("\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL)), str(PAGE), "exec"), found)
    return found


def made(root):
    return MemoryStore(StoreContext(real_world(), root, Settings(())))


def test_a_copy_follows_and_rejoins(example, tmp_path):
    async def main():
        original, copy = made(tmp_path), made(tmp_path)
        await original.start()
        await copy.start()
        logs = original.raw_log, copy.raw_log
        original.put([message(body=b"%d" % n) for n in range(20)])
        await example["follow"](*logs)
        assert copy.raw_log.read_log(0, 1 << 20) == original.raw_log.read_log(0, 1 << 20)
        end = copy.raw_log.log_range().max_offset
        original.put([message(body=b"only here"), message(body=b"and this")])
        copy.put([message(body=b"only in the copy, and longer than the original" * 9)])
        await example["rejoin"](*logs)
        assert copy.raw_log.read_log(0, 1 << 20) == original.raw_log.read_log(0, 1 << 20)
        for place in (end, end - 1, end + 1, 0, copy.raw_log.log_range().max_offset):
            await example["truncate_before"](copy.raw_log, place)
            assert copy.raw_log.log_range().max_offset <= place
            await example["rejoin"](*logs)
            assert copy.raw_log.read_log(0, 1 << 20) == original.raw_log.read_log(0, 1 << 20)

    asyncio.run(main())
