"""delayLevels.json: the store records the delay levels of its messages, for tools that work without a broker."""

import pytest

from gantrymq.formats.tags_code import parse_delay_levels
from gantrymq.interfaces import StoreMessage
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq_store_files.delay_levels import DELAY_LEVELS, DelayLevels, read_delay_levels
from gantrymq_store_files.queue_entry import ENTRY
from gantrymq_testing.store_contract_bench import START_MS

FIRST, SECOND = "20m 1h", "3s 4s"


def delayed(rig, levels, count=2, kill=False):
    """Store delayed messages of level 1 with these levels; return the log's end."""
    end = 0

    async def case(bench):
        nonlocal end
        due_ms = START_MS + parse_delay_levels(levels)[0]
        later = StoreMessage(SCHEDULE_TOPIC, 0, b"later", b"DELAY\x011\x02", tags_code=due_ms)
        if count:
            await bench.add(*[later] * count)
        rig.write_queues(bench)
        end = bench.store.state().max_log_offset

    (rig.kill if kill else rig.run)(case, messageDelayLevel=levels)
    return end


def recorded(rig):
    return read_delay_levels(rig.world.files, rig.root)


def delays_s(rig):
    data = rig.queue(SCHEDULE_TOPIC).read_bytes()
    return [(code - START_MS) // 1000 for _, size, code in ENTRY.iter_unpack(data) if size]


def test_levels_are_recorded_with_the_log_offset_from_which_they_apply(rig):
    end = delayed(rig, FIRST)
    assert recorded(rig) == DelayLevels.of(FIRST)
    before = (rig.root / DELAY_LEVELS).stat().st_mtime_ns
    delayed(rig, "1200s 60m", count=0)  # the same durations
    assert (rig.root / DELAY_LEVELS).stat().st_mtime_ns == before
    later = delayed(rig, SECOND)
    assert recorded(rig) == DelayLevels((0, end), (FIRST, SECOND))
    delayed(rig, FIRST)
    assert recorded(rig) == DelayLevels((0, end, later), (FIRST, SECOND, FIRST))
    assert delays_s(rig) == [1200, 1200, 3, 3, 1200, 1200]


def test_a_recovery_gives_stored_messages_the_due_times_of_their_levels(rig):
    delayed(rig, FIRST, kill=True)
    rig.queue(SCHEDULE_TOPIC).unlink()
    end = rig.log().read_bytes().rstrip(b"\0")
    delayed(rig, SECOND, count=1)
    assert delays_s(rig) == [1200, 1200, 3]
    assert recorded(rig).starts[1] >= len(end)


def test_levels_of_removed_records_are_forgotten(rig):
    end = delayed(rig, FIRST)

    async def truncate(bench):
        await bench.store.truncate(end // 2)
        assert recorded(rig) == DelayLevels((0, end // 2), (FIRST, SECOND))

    delayed(rig, SECOND)
    rig.run(truncate, messageDelayLevel=SECOND)
    levels = DelayLevels((0, 100, 200), (FIRST, SECOND, FIRST))
    assert levels.with_setting(FIRST, 300, 250) == DelayLevels((200,), (FIRST,))
    assert levels.with_setting(FIRST, 300, 199) == DelayLevels((100, 200), (SECOND, FIRST))
    assert levels.with_setting(SECOND, 0, 0) == DelayLevels.of(SECOND)


@pytest.mark.parametrize("content", [b"?", b"[" * 100_000, b'{"0":"x"}', b"{}"])
def test_a_file_that_cannot_be_read_or_written_is_reported(rig, content):
    delayed(rig, FIRST)
    (rig.root / DELAY_LEVELS).write_bytes(content)
    delayed(rig, SECOND)
    assert any("delayLevels.json is not a JSON object" in each and "rewritten" in each for each in rig.said)
    assert recorded(rig) == DelayLevels.of(SECOND)
    rig.faults.failing, rig.faults.only = {"replace": rig.NO_SPACE}, DELAY_LEVELS
    end = delayed(rig, FIRST)
    assert any("delayLevels.json cannot be written" in each for each in rig.said)
    rig.faults.failing = {}
    delayed(rig, FIRST)
    assert recorded(rig).starts == (0, end)


def test_a_level_applies_before_the_first_log_offset_too():
    levels = DelayLevels((100, 200), (FIRST, SECOND))
    assert [levels.at(offset)[0] for offset in (0, 100, 199, 200, 999)] == [1_200_000] * 3 + [3000] * 2
    assert levels.newest_ms == (3000, 4000)
