import logging
from types import SimpleNamespace

import pytest

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.group.process_queue import ProcessQueue
from gantrymq.client.group.pulling import QueuePuller
from gantrymq.client.reading.pull_result import PullResult, PullStatus, read_pull_reply, read_pulled_records
from gantrymq.errors import BrokerRefused, RemoteProtocolError
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.command import Command


def read(reply: Command, *tags: str):
    return read_pull_reply(reply, "b:1", "broker-a", tags)


@pytest.mark.parametrize(
    ("name", "status", "count"),
    [
        ("pull found", PullStatus.FOUND, 3),
        ("pull no new", PullStatus.NO_NEW_MSG, 0),
        ("pull no match", PullStatus.NO_MATCHED_MSG, 0),
        ("pull moved", PullStatus.OFFSET_ILLEGAL, 0),
    ],
)
def test_recorded_reply_is_read(golden, name, status, count):
    result = read(golden(name))
    assert (result.status, len(result.messages)) == (status, count)
    assert (result.next_offset, result.min_offset, result.max_offset) == (3, 0, 3)


def test_reply_of_which_the_second_filter_leaves_nothing_is_no_match(golden):
    result = read(golden("pull found"), "other")
    assert (result.status, result.messages, result.next_offset) == (PullStatus.NO_MATCHED_MSG, (), 3)


def test_refusal_is_raised(golden):
    with pytest.raises(BrokerRefused) as refused:
        read(golden("pull refused"))
    assert refused.value.response_code == 25


def test_reply_without_its_fields_is_the_brokers_fault():
    with pytest.raises(RemoteProtocolError, match="nextBeginOffset"):
        read(Command(19, ext={"minOffset": "0", "maxOffset": "0"}))


def test_records_are_those_of_the_reply(golden):
    reply = golden("pull found")
    found = read_pulled_records(reply, "b:1")
    assert (found.status, found.next_offset, found.min_offset, found.max_offset) == (PullStatus.FOUND, 3, 0, 3)
    assert found.records == reply.payload
    assert [message.body for message in decode_messages(found.records, "broker-a")] == [
        message.body for message in read(reply).messages
    ]


@pytest.mark.parametrize("name", ["pull no new", "pull no match", "pull moved"])
def test_a_reply_that_found_nothing_has_no_records(golden, name):
    found = read_pulled_records(golden(name), "b:1")
    assert (found.status, found.records) == (read(golden(name)).status, b"")


def test_records_of_a_refusal_are_refused(golden):
    with pytest.raises(BrokerRefused):
        read_pulled_records(golden("pull refused"), "b:1")


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ((0, 70), "the offset of g in {} was reset, from 60 to 0"),
        ((0, 60), "the offset of g in {} was reset, from 60 to 0"),
        ((80, 90), "{} has no offset 60; g continues at 0"),
        ((0, 5), "{} has no offset 60; g continues at 0"),
    ],
)
def test_a_reset_offset_is_not_logged_as_one_that_does_not_exist(caplog, bounds, words):
    moved = []
    puller = QueuePuller(SimpleNamespace(group="g"), lambda pq, offset: moved.append((pq.next_offset, offset)))
    queue = MessageQueue("T", "a", 1)
    with caplog.at_level(logging.INFO, "gantrymq.client"):
        assert not puller._accept(ProcessQueue(queue, 60, 0.0), PullResult(PullStatus.OFFSET_ILLEGAL, (), 0, *bounds))
    assert moved == [(60, 0)] and caplog.messages == [words.format(queue)]
