"""Interceptors are called for each entry of a batch, with or without a record per entry."""

from __future__ import annotations

from types import SimpleNamespace

import attrs
import pytest
from broker_desk import records

from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.sending.batches import Batches
from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.queue_targets import TargetSelector
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Setting, Settings
from gantrymq.errors import MessageIllegal
from gantrymq.formats.batch_body import BatchEntry, decode_batch, encode_batch
from gantrymq.interfaces import MessageBatch, StoreMessage
from gantrymq.model import sys_flag
from gantrymq.model.topic import TopicConfig

ORDINARY = TopicConfig("T")
BATCHES = TopicConfig("B", attributes={"queue.type": "BatchCQ"})
ENTRIES = [BatchEntry(3, b"one", b"KEYS\x01a\x02"), BatchEntry(0, b"two", b"")]


class Upper:
    """Capitals; a new message each time, as an interceptor may."""

    order = 1

    def __init__(self):
        self.seen = []

    def __call__(self, message):
        self.seen.append(bytes(message.body))
        if b"refuse" in bytes(message.body):
            raise MessageIllegal("not this one")
        return StoreMessage(
            message.topic,
            message.queue_id,
            bytes(message.body).upper(),
            message.properties,
            flag=message.flag,
            sys_flag=message.sys_flag,
            born_timestamp=message.born_timestamp,
        )


def test_each_entry_is_seen_and_stored_as_it_came_back(broker, plugins):
    upper = Upper()

    async def main(desk):
        assert (await desk.send_batch("T", [(b"one", b""), (b"two", b"")])).code == 0
        assert [bytes(record.body) for record in records(await desk.pull("T"))] == [b"ONE", b"TWO"]
        refused = await desk.send_batch("T", [(b"three", b""), (b"refuse", b"")])
        assert (refused.code, refused.remark) == (13, "not this one")
        assert len(records(await desk.pull("T"))) == 2
        assert upper.seen == [b"one", b"two", b"three", b"refuse"]

    broker(main, plugins=attrs.evolve(plugins, interceptors=(upper,)))


def inner_batch(*interceptors, entries=ENTRIES):
    """Return the message for *entries* of a batch queue, and the original body."""
    body = encode_batch(entries)
    request = SimpleNamespace(body=body, flag=0, born_timestamp=5, born_host=bytes(8), reconsume_times=0)
    settings = Settings(SCHEMA)
    batches = Batches(settings, TargetSelector(settings), InterceptorChain(interceptors, Stats()), bytes(8))
    (message,) = batches.messages(request, BATCHES, 0, 0, {"UNIQ_KEY": "U"})
    assert message.sys_flag & sys_flag.INNER_BATCH
    assert message.queue_targets.batch == len(entries)
    return message, body


def test_the_entries_of_one_record_are_seen_and_go_into_it_again():
    message, _ = inner_batch(Upper())
    assert decode_batch(message.body) == [BatchEntry(3, b"ONE", b"KEYS\x01a\x02"), BatchEntry(0, b"TWO", b"")]


@pytest.mark.parametrize("interceptors", [(), (lambda message: message,)], ids=["none", "one that changes nothing"])
def test_a_record_that_nobody_changes_keeps_its_bytes(interceptors):
    message, body = inner_batch(*interceptors)
    assert message.body is body


@pytest.mark.parametrize(("change", "words"), [({"topic": "T"}, "T/0"), ({"queue_id": 4}, "B/4")])
def test_an_entry_cannot_leave_its_record(change, words):
    def moves(message):
        for name, value in change.items():
            setattr(message, name, value)
        return message

    with pytest.raises(
        MessageIllegal, match=f"message 0 of a batch for topic B would go to {words}, but the batch is one"
    ):
        inner_batch(moves)


def test_properties_that_grew_too_long_are_refused():
    def grows(message):
        message.properties = b"K\x01" + b"x" * 32768
        return message

    with pytest.raises(MessageIllegal, match="message 1 of 2, .*: the properties have 32770 bytes"):
        inner_batch(grows)


class OnDelay(Upper):
    properties = frozenset({"DELAY"})


def stored_batch(entries, *interceptors, topic=ORDINARY, envelope=None, settings=None):
    """The messages of a batch for an ordinary queue."""
    request = SimpleNamespace(
        body=encode_batch(entries), flag=0, born_timestamp=5, born_host=bytes(8), reconsume_times=2
    )
    settings = settings or Settings(SCHEMA)
    batches = Batches(settings, TargetSelector(settings), InterceptorChain(interceptors, Stats()), bytes(8))
    return batches.messages(request, topic, 3, 1, {"WAIT": "true"} if envelope is None else envelope)


def fields(messages):
    names = StoreMessage.__slots__
    return [[bytes(each.body), *(getattr(each, name) for name in names if name != "body")] for each in messages]


PLAIN = [BatchEntry(1, b"a", b"TAGS\x01A\x02"), BatchEntry(0, b"b", b"UNIQ_KEY\x01U"), BatchEntry(0, b"", b"")]


@pytest.mark.parametrize("envelope", [{}, {"WAIT": "false", "MSG_REGION": "r"}, {"TAGS": "Red", "CLUSTER": "c"}])
def test_plain_messages_that_no_plugin_sees_are_left_encoded(envelope):
    left = stored_batch(PLAIN, OnDelay(), envelope=dict(envelope))
    decoded = stored_batch(PLAIN, Same(), envelope=dict(envelope))
    assert (type(left), type(decoded)) == (MessageBatch, list)
    assert fields(left) == fields(decoded)
    assert left.wait_stored is decoded[-1].wait_stored
    assert (len(left), left[1:][0].same_file_as_previous, left[0].same_file_as_previous) == (3, True, False)


class Same(Upper):
    def __call__(self, message):
        return message


@pytest.mark.parametrize(
    ("entries", "more"),
    [
        (PLAIN, {"topic": BATCHES}),
        ([BatchEntry(0, b"a", b"DELAY\x010\x02")], {}),
        (PLAIN, {"envelope": {"DELAY": "0"}}),
        ([BatchEntry(0, b"a", b"a\x01\xc3\xa4\x02")], {}),
        ([BatchEntry(0, b"a", b"TAGS\x01\x02")], {}),
        (PLAIN, {"envelope": {"a": "\u00e4"}}),
    ],
)
def test_other_messages_are_decoded(entries, more):
    assert type(stored_batch(entries, OnDelay(), **more)) is list


def test_messages_for_light_queues_are_not_left_encoded():
    own = [Setting(name, "flag", True, "declared by a store") for name in ("enableLmq", "enableMultiDispatch")]
    settings = Settings([*SCHEMA, *own])
    entries = [BatchEntry(0, b"a", b"INNER_MULTI_DISPATCH\x01%LMQ%l\x02")]
    with pytest.raises(MessageIllegal, match="light queues"):
        stored_batch(entries, settings=settings)
    assert type(stored_batch(entries)) is MessageBatch
