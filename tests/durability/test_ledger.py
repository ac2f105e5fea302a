"""The ledger itself: each way in which a store can be wrong is found and counted."""

from __future__ import annotations

import random

import attrs
import pytest
from durability_rig.ledger import Findings, Ledger, MessagePosition, QueueContent

from gantrymq.client import SendResult, SendStatus
from gantrymq.client.message import ReceivedMessage
from gantrymq.model.queue import MessageQueue

TOPIC = "LoadA"


@pytest.fixture
def ledger() -> Ledger:
    """Five messages, the last one not acknowledged."""
    ledger, rng = Ledger(), random.Random(1)
    for number in range(5):
        ledger.write(TOPIC, rng)
        if number < 4:
            ledger.acknowledge("sender", [number], result(number))
    return ledger


def result(queue_offset: int) -> SendResult:
    return SendResult(SendStatus.SEND_OK, ("",), ("",), MessageQueue(TOPIC, "broker", 0), queue_offset)


def stored(count: int) -> list[ReceivedMessage]:
    """Return the content of a sound store with the fixture's messages."""
    rng, twin, found = random.Random(1), Ledger(), []
    for number in range(count):
        _, message = twin.write(TOPIC, rng)
        found.append(received(message.body, number, str(number)))
    return found


def received(body: bytes, queue_offset: int, keys: str) -> ReceivedMessage:
    return ReceivedMessage(
        topic=TOPIC,
        body=body,
        properties={"KEYS": keys},
        flag=0,
        queue_id=0,
        queue_offset=queue_offset,
        log_offset=0,
        store_size=0,
        sys_flag=0,
        born_timestamp=0,
        born_host="",
        store_timestamp=0,
        store_host="",
        reconsume_times=0,
        body_crc=0,
        prepared_offset=0,
        offset_id="",
    )


def compare(ledger: Ledger, messages: list[ReceivedMessage], high: int | None = None, low: int = 0) -> Findings:
    content = QueueContent(low, len(messages) if high is None else high, messages)
    return ledger.compare({(TOPIC, 0): content}, [TOPIC])


@pytest.mark.parametrize("count", [4, 5])
def test_a_sound_store_passes_with_or_without_what_was_not_acknowledged(ledger: Ledger, count: int) -> None:
    findings = compare(ledger, stored(count))
    assert findings.problems == 0
    assert (findings.sent, findings.acknowledged, findings.found) == (5, 4, count)
    assert findings.unacknowledged_found == count - 4


def test_a_lost_message_is_found(ledger: Ledger) -> None:
    findings = compare(ledger, stored(3))
    assert (findings.lost, findings.problems) == (1, 1)


def test_a_message_stored_twice_is_found(ledger: Ledger) -> None:
    messages = stored(5)
    findings = compare(ledger, [*messages, attrs.evolve(messages[4], queue_offset=5)])
    assert (findings.duplicated, findings.problems) == (1, 1)


def test_messages_in_another_order_than_acknowledged_are_found(ledger: Ledger) -> None:
    one, two, *rest = stored(4)
    findings = compare(ledger, [attrs.evolve(two, queue_offset=0), attrs.evolve(one, queue_offset=1), *rest])
    assert (findings.moved, findings.problems) == (2, 2)


def test_a_changed_body_and_a_message_never_sent_are_found(ledger: Ledger) -> None:
    messages = stored(4)
    messages[1] = attrs.evolve(messages[1], body=messages[1].body[:-1] + b"\0")
    findings = compare(ledger, [*messages, received(b"9999999999", 4, "9999999999")])
    assert (findings.damaged, findings.foreign, findings.problems) == (1, 1, 2)


@pytest.mark.parametrize(("high", "low"), [(6, 0), (4, 1)])
def test_holes_in_queue_offsets_are_found(ledger: Ledger, high: int, low: int) -> None:
    assert compare(ledger, stored(4), high, low).gaps == 1


def test_where_holes_are_allowed_a_lost_message_is_found_all_the_same(ledger: Ledger) -> None:
    one, two, *rest = stored(4)

    def holding(messages: list[ReceivedMessage], high: int) -> Findings:
        return ledger.compare({(TOPIC, 0): QueueContent(0, high, messages)}, [TOPIC], holes=True)

    kept, lost, twice = (holding(each, 6) for each in ([one, two, *rest], [one, *rest], [one, two, two, *rest]))
    assert (kept.holes, kept.problems) == (2, 0)
    assert (lost.holes, lost.lost, lost.problems) == (3, 1, 1)
    assert (twice.gaps, twice.duplicated) == (1, 1)


def test_a_missing_topic_and_what_a_consumer_saw_and_is_gone_are_found(ledger: Ledger) -> None:
    ledger.topics["MadeA"] = 1
    ledger.seen[MessagePosition(TOPIC, 0, 4)] = 4
    findings = compare(ledger, stored(4))
    assert (findings.missing_topics, findings.unseen, findings.problems) == (1, 1, 2)


def test_an_offset_given_twice_is_found_at_once(ledger: Ledger) -> None:
    ledger.write(TOPIC, random.Random(2))
    with pytest.raises(AssertionError, match="was given to"):
        ledger.acknowledge("another sender", [5], result(2))
