"""Checks of the acknowledged messages against the queues and against the messages delivered to consumers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from harness.process import Event

from gantrymq.client import Client, PullStatus

READER = "chaos-reader"


class Place(NamedTuple):
    """The place of a message."""

    broker: str
    queue_id: int
    offset: int


Bodies = dict[Place, str]


def place_of(event: Event) -> Place:
    """The place that a line of `Stream` or `Follow` names."""
    return Place(event["b"], event["q"], event["o"])


async def read_topic(namesrv: str, topic: str) -> Bodies:
    """All messages of *topic*; an offset without a message is an error."""
    found: Bodies = {}
    async with Client(namesrv) as client, client.reader(group=READER) as consumer:
        for queue in await consumer.queues(topic):
            offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
            assert offset == 0
            while offset < end:
                result = await consumer.pull(queue, offset)
                assert result.status is PullStatus.FOUND, f"{queue} at {offset} of {end}: {result.status.name}"
                for message in result.messages:
                    assert message.queue_offset == offset, f"{queue}: {message.queue_offset} instead of {offset}"
                    found[Place(queue.broker_name, queue.queue_id, offset)] = message.body.decode().rstrip(".")
                    offset += 1
    return found


def assert_all_there(acknowledged: Mapping[Place, str], found: Mapping[Place, str]) -> None:
    """Check that every acknowledged message is stored at the place reported to its sender."""
    missing = {place: body for place, body in acknowledged.items() if found.get(place) != body}
    assert not missing, f"{len(missing)} of {len(acknowledged)} lost, such as {list(missing.items())[:3]}"


def assert_sent_once(found: Mapping[Place, str], prefix: str) -> None:
    """Check senders without retries (*prefix*): each message is stored at most once, in the order of sending."""
    once = [body for body in found.values() if body.startswith(f"{prefix}-")]
    assert once
    twice = {body: count for body, count in Counter(once).items() if count > 1}
    assert not twice, twice
    last: dict[tuple[str, int, str], int] = {}
    for place, body in sorted(found.items()):
        sender, _, index = body.rpartition("-")
        if body.startswith(f"{prefix}-"):
            key = (place.broker, place.queue_id, sender)
            assert int(index) > last.get(key, -1), f"{body} at {place} behind index {last[key]}"
            last[key] = int(index)


def assert_all_came(found: Mapping[Place, str], got: Iterable[Event]) -> None:
    """Check that consumers received the messages of the queues, each as it is stored there."""
    came: Bodies = {}
    for event in got:
        assert came.setdefault(place_of(event), event["body"]) == event["body"], event
    missing = found.keys() - came.keys()
    assert not missing, f"{len(missing)} of {len(found)} never came, such as {sorted(missing)[:3]}"
    other = {place: body for place, body in came.items() if found.get(place) != body}
    assert not other, f"{len(other)} came that are not there, such as {list(other.items())[:3]}"


def assert_in_order(got: Iterable[Event]) -> int:
    """Check that no message of a queue was first delivered before its predecessor; return the number of repeats.

    A consumer may receive again messages that its group had not committed, and continues from there: at-least-once
    delivery.
    """
    newest: dict[tuple[str, int], int] = {}
    again = 0
    for event in sorted(got, key=lambda each: int(each["at"])):
        queue, offset = (event["b"], event["q"]), int(event["o"])
        before = newest.get(queue, -1)
        assert offset <= before + 1, f"{queue}: {offset} came when {before} was the newest"
        again += offset <= before
        newest[queue] = max(before, offset)
    assert newest
    return again
