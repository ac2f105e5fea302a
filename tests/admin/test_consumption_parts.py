"""Parts of the question who consumed a message: origins of copies, records page by page, traces, pops, delays."""

import asyncio

import attrs
import pytest

from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.records import SubAfter, SubBefore, encode_trace
from gantrymq.errors import BrokerRefused
from gantrymq.formats.record import encode_record
from gantrymq.model import properties as props
from gantrymq.model.ids import offset_id
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.command import Command
from gantrymq_admin.consumption import Kind, MessageFacts, Pop
from gantrymq_admin.consumption.copies import (
    delayed_by_group,
    is_copy_of,
    levels_in,
    origin_of,
    pick_original,
    records_of,
    tries_by_group,
)
from gantrymq_admin.consumption.fact_queries import records_at
from gantrymq_admin.consumption.pops import Pops

HOST = bytes([127, 0, 0, 1, 0, 0, 0x2A, 0x9F])


def received(topic="T", body=b"", properties=None, **more):
    fields = {
        "queue_id": 0,
        "queue_offset": 0,
        "log_offset": 0,
        "store_size": 100,
        "sys_flag": 0,
        "born_timestamp": 1000,
        "born_host": "10.0.0.7:5000",
        "store_timestamp": 1000,
        "store_host": "127.0.0.1:10911",
        "reconsume_times": 0,
        "body_crc": 0,
        "prepared_offset": 0,
        "offset_id": "O",
        "broker_name": "a",
        **more,
    }
    return ReceivedMessage(topic=topic, body=body, properties=properties or {}, flag=0, **fields)


@pytest.mark.parametrize(
    ("topic", "properties", "kind", "topics", "group"),
    [
        ("T", {}, Kind.NORMAL, (), None),
        ("%RETRY%G", {"RETRY_TOPIC": "T"}, Kind.RETRY, ("T",), "G"),
        ("%RETRY%my_group", {"RETRY_TOPIC": "T"}, Kind.RETRY, ("T",), "my_group"),
        ("%RETRY%my_group_the_topic", {}, Kind.RETRY, ("group_the_topic", "the_topic", "topic"), None),
        ("%RETRY%G+T", {}, Kind.RETRY, ("T",), None),
        ("%DLQ%G", {"RETRY_TOPIC": "T"}, Kind.DEAD_LETTER, ("T",), "G"),
        ("%DLQ%G", {"RETRY_TOPIC": "%RETRY%G_T"}, Kind.DEAD_LETTER, ("T",), "G"),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "T"}, Kind.DELAYED, ("T",), None),
        ("rmq_sys_wheel_timer", {"REAL_TOPIC": "T"}, Kind.DELAYED, ("T",), None),
        ("SCHEDULE_TOPIC_XXXX", {"REAL_TOPIC": "%RETRY%G", "RETRY_TOPIC": "T"}, Kind.RETRY, ("T",), "G"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", {"REAL_TOPIC": "T"}, Kind.HALF, ("T",), None),
        ("TRANS_CHECK_MAX_TIME_TOPIC", {"REAL_TOPIC": "T"}, Kind.DISCARDED, ("T",), None),
    ],
)
def test_what_a_message_is_a_copy_of(topic, properties, kind, topics, group):
    found = origin_of(received(topic, properties=properties))
    assert (found.kind, found.topics, found.group) == (kind, topics, group)


def test_the_original_that_a_copy_names_is_preferred_to_the_first_with_its_id():
    one, other = offset_id(HOST, 100), offset_id(HOST, 900)
    first, second = received(offset_id=one, store_timestamp=1), received(offset_id=other, store_timestamp=2)
    named = received("%RETRY%G", properties={props.ORIGIN_MESSAGE_ID: other})
    assert pick_original(named, [first, second]) is second
    assert pick_original(received("%RETRY%G"), [second, first]) is first
    assert pick_original(named, []) is None
    message = MessageFacts(MessageQueue("T", "a", 0), 0, "U", one, 1)
    assert not is_copy_of(message, named)
    assert is_copy_of(attrs.evolve(message, offset_id=other), named)
    assert is_copy_of(message, received("%RETRY%G", properties={props.ORIGIN_MESSAGE_ID: "not an offset id"}))


class Index:
    """Answers queries for records like a broker: the newest of the window, at most 64."""

    def __init__(self, times_ms):
        self.times_ms, self.asked = times_ms, 0

    async def request(self, address, code, header):
        self.asked += 1
        window = range(header.begin_timestamp // 1000 * 1000, header.end_timestamp // 1000 * 1000 + 1000)
        found = [(n, at) for n, at in enumerate(self.times_ms) if at in window][-header.max_num :]
        if not found:
            raise BrokerRefused(22, "can not find message", address)
        records = [
            encode_record(
                topic="T",
                queue_id=0,
                queue_offset=n,
                log_offset=n * 100,
                body=b"",
                properties=props.encode({props.UNIQ_KEY: "U"}),
                store_timestamp=at,
                store_host=HOST,
            )
            for n, at in found
        ]
        return Command(0, body=b"".join(records))


def numbers(found):
    return [each.queue_offset for each in found.messages]


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 200])
def test_records_are_read_page_by_page(count):
    index = Index([10_000_000 + 700 * n for n in range(count)])
    found = asyncio.run(records_at(index, "a", "a:1", "T", "U", 10_000_000))
    assert (numbers(found), found.problem) == (list(range(count)), "")


def test_too_many_records_are_said_to_be_incomplete():
    index = Index([10_000_000 + 1000 * n for n in range(2000)])
    found = asyncio.run(records_at(index, "a", "a:1", "T", "U", 10_000_000))
    assert found.problem
    assert numbers(found)[-1] == 1999
    assert index.asked < 20


def test_more_records_in_one_second_than_a_page_are_said_to_be_incomplete():
    index = Index([10_000_000] * 100)
    assert asyncio.run(records_at(index, "a", "a:1", "T", "U", 10_000_000)).problem


def trace(*records, host="10.0.0.7:5000"):
    return received("RMQ_SYS_TRACE_TOPIC", encode_trace(records).encode(), born_host=host)


def test_tries_are_put_together_from_beginnings_and_ends():
    begun = SubBefore(100, "r", "G", "R1", "M", 2, None)
    ended = SubAfter("R1", "M", 30, True, None, 0, 150, "G")
    other = SubBefore(90, "r", "H", "R2", "M", 0, None)
    old = SubAfter("R2", "M", 5, False, None, 4)  # clients before 4.7 write no group
    lost = SubAfter("R3", "M", 5, False, None, 4, 120, "G")
    elsewhere = SubAfter("R4", "another", 5, True, None, 0, 120, "G")
    traces = [trace(ended, lost, elsewhere), trace(begun, other, old), received(body=b"Pub\x01x\x02")]
    records, unreadable = records_of(traces, "M")
    tries = tries_by_group(records)
    assert unreadable == 1
    first, second = tries["G"]
    assert (first.success, first.began_ms, first.ended_ms) == (False, None, 120)
    assert (second.success, second.began_ms, second.ended_ms, second.failures) == (True, 100, 150, 2)
    assert second.client_host == "10.0.0.7"
    (only,) = tries["H"]
    assert (only.success, only.began_ms, only.ended_ms) == (False, 90, None)


def revive(tag, at, *, topic="rmq_sys_REVIVE_LOG_C", **members):
    body = "{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}"
    return received(topic, body.encode(), {"TAGS": tag, "REAL_TOPIC": "rmq_sys_REVIVE_LOG_C"}, queue_offset=at)


PLACE = {"t": '"T"', "c": '"G"', "q": 1, "so": 40, "bn": '"a"'}
CHECKPOINT = {**PLACE, "pt": 5000, "it": 600, "n": 3, "d": "[0,1,4]"}


@pytest.mark.parametrize(
    ("records", "processed", "expected"),
    [
        ([], -1, None),
        ([revive("ck", 7, **CHECKPOINT)], -1, Pop(5000, 5600, False)),
        ([revive("ck", 7, **CHECKPOINT)], 7, None),  # revived: there is a copy
        ([revive("ck", 7, **CHECKPOINT), revive("ack", 8, **PLACE, pt=5000, ao=41)], -1, Pop(5000, 5600, True)),
        ([revive("ck", 7, **CHECKPOINT), revive("ack", 8, **PLACE, pt=5000, ao=41)], 8, Pop(5000, 5600, True)),
        ([revive("ck", 7, **CHECKPOINT), revive("ack", 8, **PLACE, pt=5000, ao=40)], -1, Pop(5000, 5600, False)),
        (
            [revive("ck", 7, **CHECKPOINT), revive("bAck", 8, **PLACE, pt=5000, ao=-1, aol="[40,41]")],
            -1,
            Pop(5000, 5600, True),
        ),
        ([revive("ack", 8, **PLACE, pt=5000, ao=41)], -1, None),  # without its checkpoint
        (
            [  # the invisible time was changed
                revive("ck", 7, **CHECKPOINT),
                revive("ck", 8, **{**CHECKPOINT, "so": 41, "pt": 5100, "d": "[0]", "it": 900}),
                revive("ack", 9, **PLACE, pt=5000, ao=41),
            ],
            -1,
            Pop(5100, 6000, False),
        ),
        ([revive("ck", 7, **{**CHECKPOINT, "d": "[]"})], -1, Pop(5000, 5600, False)),  # old brokers: 40, 41, 42
        ([revive("ck", 3, topic="rmq_sys_wheel_timer", **CHECKPOINT)], 7, Pop(5000, 5600, False)),  # not due
        ([revive("ck", 7, **{**CHECKPOINT, "c": '"H"'})], -1, None),
        ([received("rmq_sys_REVIVE_LOG_C", b"damaged", {"TAGS": "ck"})], -1, None),
    ],
)
def test_the_last_pop_of_a_message(records, processed, expected):
    assert Pops(records, {0: processed}).of("G", "T", 1, 41) == expected


def test_delays_by_level_and_by_the_timer_wheel():
    message = MessageFacts(MessageQueue("T", "a", 0), 0, "U", "O", 1)
    real = {"REAL_TOPIC": "%RETRY%G"}
    records = [
        received("SCHEDULE_TOPIC_XXXX", properties=real, queue_id=2, store_timestamp=1000, offset_id="A"),
        received("SCHEDULE_TOPIC_XXXX", properties=real, queue_id=99, offset_id="B"),
        received("rmq_sys_wheel_timer", properties={**real, "TIMER_OUT_MS": "77000"}, offset_id="C"),
        received("SCHEDULE_TOPIC_XXXX", properties={"REAL_TOPIC": "T"}, offset_id="D"),  # the message's own delay
    ]
    ((group, copies),) = delayed_by_group(message, records, levels_in({"messageDelayLevel": "1s 2s 3s"})).items()
    assert (group, [copy.due_ms for copy in copies]) == ("G", [4000, None, 77000])
    assert levels_in({})[:3] == levels_in({"messageDelayLevel": "nonsense"})[:3] == (1000, 5000, 10_000)
