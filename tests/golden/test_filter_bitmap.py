"""The golden store ``sql``: our bits equal Java's, and Java's bits are used if its file allows it."""

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from golden_stores import Scenario
from mmap_stores import TAKEN_OVER

from gantrymq.formats.config import pretty
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import PullRequest
from gantrymq.loose_json import loads
from gantrymq.model import properties as property_text
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92 import filter as sql92_filter
from gantrymq_filter_sql92.bitmap.filter_data import BloomFilter
from gantrymq_filter_sql92.bitmap.filter_table import FilterTable
from gantrymq_filter_sql92.bitmap.message_filter import BitMapCounters, EvaluationTime, TopicBits
from gantrymq_filter_sql92.expression import compiled
from gantrymq_store_files.ext_unit import iter_ext_units
from gantrymq_testing import RunningBroker

TOPIC = "GoldenSql"
FULL = 32  # messages of one pull
ASKED = "gantrymq_filter_bitmap_asked_total"


def _table(scenario: Scenario) -> FilterTable:
    table = FilterTable(BloomFilter.for_groups(32, 20), "SQL92", lambda expression: True)
    assert table.load(loads((scenario.store / "config" / "consumerFilter.json").read_bytes()), 0)
    return table


def _units(scenario: Scenario, queue_id: int):
    folder = scenario.store / "consumequeue_ext" / TOPIC / str(queue_id)
    return [unit for path in sorted(folder.iterdir()) for _, unit in iter_ext_units(path.read_bytes())]


def _records(scenario: Scenario, queue_id: int):
    return [record for record in scenario.records if record["queueId"] == queue_id]


def test_the_file_of_the_filters_is_written_as_it_was_read(golden):
    text = (golden("sql").store / "config" / "consumerFilter.json").read_text()
    assert pretty(_table(golden("sql")).to_json()) == text


def test_the_bits_of_each_group_are_those_in_the_file(golden):
    table = _table(golden("sql"))
    assert len(table.of_topic(TOPIC)) == 10
    for group, data in table.of_topic(TOPIC).items():
        assert table.bloom.bits_of(group, TOPIC) == data.bits


def test_the_map_of_each_message_is_the_one_in_the_ext_files(golden):
    scenario = golden("sql")
    filters = _table(scenario).of_topic(TOPIC).values()
    bits = TopicBits(
        filters, lambda data: compiled(data.expression).matches, EvaluationTime(lambda: 0.0), BitMapCounters()
    )
    compared = 0
    for queue_id in (0, 1):
        records, units = _records(scenario, queue_id), _units(scenario, queue_id)
        assert len(records) == len(units)
        for record, unit in zip(records, units, strict=True):
            assert unit.store_timestamp == record["storeTimestamp"]
            if not unit.bits:
                assert record["storeTimestamp"] <= min(data.born_ms for data in filters)
            else:
                assert bits(property_text.encode(record["properties"])).hex() == unit.bits.hex(), record["properties"]
                compared += 1
    assert compared > 90


def _broker(scenario: Scenario, **more: str) -> RunningBroker:
    """Our broker on the golden store, with the settings that its own had."""
    kept = {key: scenario.conf[key] for key in TAKEN_OVER if key in scenario.conf}
    return RunningBroker(scenario.folder, {"store": "mmap", "enableCalcFilterBitMap": "true", **kept, **more})


async def _read(broker, group: str, expression: str) -> list[tuple[int, int]]:
    """Queue and offset of every message that a group gets by the pulls of a client that sends its subscription."""
    found = []
    for queue_id in (0, 1):
        offset, end = 0, broker.store.bounds(Queue(TOPIC, queue_id)).max_offset
        while offset < end:
            request = PullRequest(group, TOPIC, queue_id, offset, expression=expression, expression_type="SQL92")
            answer = await broker.messages.pull(request)
            for buffer in answer.buffers:
                found += [(record.queue_id, record.queue_offset) for record in iter_records(buffer)]
            assert answer.next_offset > offset
            offset = answer.next_offset
    return found


def _asked(running: RunningBroker) -> dict[str, float]:
    (shown,) = [
        each for each in running.call(lambda: running.broker.metrics.snapshot().plugin_metrics) if each.name == ASKED
    ]
    return {outcome: value for (outcome,), value in shown.values.items()}


def _subscriptions(scenario: Scenario) -> dict[str, str]:
    lines = [line for line in scenario.messages if line["kind"] == "subscription" and line["type"] == "SQL92"]
    return {line["group"]: line["expression"] for line in lines}


def _received(scenario: Scenario, group: str) -> set[tuple[int, int]]:
    lines = scenario.received("push-sql")
    return {(line["queueId"], line["queueOffset"]) for line in lines if line["group"] == group}


@pytest.mark.parametrize("window", ["0", "1000000000"])
def test_each_group_gets_what_java_gave_it_and_the_bits_save_reads(golden_copy, window, monkeypatch):
    monkeypatch.setattr(sql92_filter, "MOST_NEEDLES", -1)  # they spare evaluations as well
    scenario = golden_copy("sql")
    messages, read = len(scenario.records), 0
    with _broker(scenario, hotReadWindow=window) as running:
        for group, expression in _subscriptions(scenario).items():
            got = running.run(_read(running.broker, group, expression))
            assert set(got) == _received(scenario, group), expression
            read += len(got)
        asked = _asked(running)
    groups = len(_subscriptions(scenario))
    full = sum(queue > FULL for queue in _matching(scenario))  # pulls that left something to another one
    again = asked["checked"] - (messages - 1) * groups  # one message is older than the groups
    assert full <= again <= full * messages  # messages after a full pull are evaluated by the next pull too
    failed = asked["evaluated"] - read - full
    assert 0 <= asked["false_positive"] <= failed
    assert asked["evaluated"] <= groups * messages - asked["skipped"] + again
    assert asked["skipped"] > asked["checked"] / 2


def _matching(scenario: Scenario) -> list[int]:
    """Number of messages of each queue that each group received."""
    received = [_received(scenario, group) for group in _subscriptions(scenario)]
    return [sum(place[0] == queue_id for place in places) for places in received for queue_id in (0, 1)]


def test_a_message_whose_bits_say_no_is_not_read(golden_copy):
    """Wrong bits: they decide, but only for a group with the same expression."""
    scenario = golden_copy("sql")
    group, expression = "CG_sql0", "price > 100"
    first = min(place for place in _received(scenario, group) if place[0] == 0)
    _clear_bits(scenario, first[1])
    with _broker(scenario) as running:
        assert set(running.run(_read(running.broker, group, expression))) == _received(scenario, group) - {first}
        assert set(running.run(_read(running.broker, "Another", expression))) == _received(scenario, group)
        assert set(running.run(_read(running.broker, group, "price > 100.0"))) == _received(scenario, group)


def _clear_bits(scenario: Scenario, queue_offset: int) -> None:
    """Set the bits of one message of queue 0 so that no group matches."""
    for path in sorted((scenario.store / "consumequeue_ext" / TOPIC / "0").iterdir()):
        units = list(iter_ext_units(path.read_bytes()))
        if queue_offset < len(units):
            position, unit = units[queue_offset]
            data = bytearray(path.read_bytes())
            data[position + unit.size - len(unit.bits) : position + unit.size] = bytes(len(unit.bits))
            path.write_bytes(data)
            return
        queue_offset -= len(units)


def test_what_is_stored_next_gets_bits_and_the_file_goes_on(golden_copy):
    scenario = golden_copy("sql")
    sent = scenario.records[1:20]
    with _broker(scenario) as running:
        assert running.settings.number("bitMapLengthConsumeQueueExt") == 112
        for record in sent:
            running.put(TOPIC, b"again", queue_id=0, properties=record["properties"])
        for group, expression in _subscriptions(scenario).items():
            got = running.run(_read(running.broker, group, expression))
            again = [place for place in got if place not in _received(scenario, group)]
            assert len(again) == sum(
                (each["queueId"], each["queueOffset"]) in _received(scenario, group) for each in sent
            )
    units = _units(scenario, 0)[-len(sent) :]
    before = {(record["queueId"], record["queueOffset"]): record for record in scenario.records}
    bits_of = {
        place: unit.bits
        for queue_id in (0, 1)
        for place, unit in zip(
            sorted(place for place in before if place[0] == queue_id), _units(scenario, queue_id), strict=False
        )
    }
    assert [unit.bits for unit in units] == [bits_of[each["queueId"], each["queueOffset"]] for each in sent]


def test_other_sizes_of_the_map_make_the_bits_worthless_but_not_the_messages(golden_copy):
    scenario = golden_copy("sql")
    with _broker(scenario, expectConsumerNumUseFilter="64") as running:
        assert running.settings.number("bitMapLengthConsumeQueueExt") == 216
        for group, expression in _subscriptions(scenario).items():
            assert set(running.run(_read(running.broker, group, expression))) == _received(scenario, group)
        assert _asked(running)["checked"] == 0
