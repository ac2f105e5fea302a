"""Checks of the acknowledged messages against the queues and against the messages delivered to consumers.

The chaos tests check what Java's clients print. A `History` is noted by the test itself, for simulated and real runs
with copies of a broker: `judge` compares it with the log that took over, and with those of the other brokers.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import attrs

from gantrymq.client import Client, PullStatus, SendResult
from gantrymq.errors import FormatError
from gantrymq.formats.record import RecordView, body_crc, read_record

READER = "chaos-reader"
MAGIC_BLANK = 0xCBD43194  # of unused space in a log file
Event = dict[str, Any]


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
                    found[Place(queue.broker_name, queue.queue_id, offset)] = body_of(message.body)
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


# --- histories noted by the test --------------------------------------------------------------------------------------


class Sent(NamedTuple):
    """An acknowledged send."""

    body: str
    place: Place
    begun: float  # seconds on one clock
    ended: float
    log_offset: int = -1  # of the record, if it is known
    server: str = ""  # host:port of the broker that acknowledged it, if it is known


@attrs.define
class History:
    """What the clients of a run know: nothing else is noted, and nothing is taken from the brokers' memory."""

    acknowledged: list[Sent] = attrs.field(factory=list)
    seen: dict[Place, str] = attrs.field(factory=dict)  # by consumers
    changed: list[str] = attrs.field(factory=list)  # places that consumers saw with two bodies
    unsure: int = 0  # sends that failed, or were acknowledged with a reserve

    def acknowledge(
        self, body: str, place: Place, begun: float, ended: float, log_offset: int = -1, server: str = ""
    ) -> None:
        """Note an acknowledgement without a reserve."""
        self.acknowledged.append(Sent(body, place, begun, ended, log_offset, server))

    def take(self, body: str, result: SendResult, begun: float, ended: float) -> None:
        """Note what a client's send returned."""
        if not result.ok:
            self.unsure += 1
            return
        place = Place(result.queue.broker_name, result.queue.queue_id, result.queue_offset)
        server, log_offset = stored_at(result.offset_id)
        self.acknowledge(body, place, begun, ended, log_offset, server)

    def saw(self, place: Place, body: str) -> None:
        """Note a message that a consumer received."""
        if self.seen.setdefault(place, body) != body:
            self.changed.append(f"{place}: {self.seen[place]}, then {body}")

    def lost(self, found: Mapping[Place, str]) -> list[Sent]:
        """Return the acknowledged messages that are not at their places in *found*."""
        return [each for each in self.acknowledged if found.get(each.place) != each.body]

    def judge(self, survivor: Mapping[Place, str], *others: Mapping[Place, str]) -> None:
        """Check that nothing acknowledged is lost, and everything that `judge_seen` checks.

        *survivor*: the messages of the log that took over; *others*: those of the other logs.
        """
        if lost := self.lost(survivor):
            raise AssertionError(f"{len(lost)} of {len(self.acknowledged)} lost, such as {lost[:3]}")
        self.judge_seen(survivor, *others)

    def judge_seen(self, *logs: Mapping[Place, str]) -> None:
        """Check order, and that every message which a consumer saw is in one of *logs*."""
        self.judge_order()
        assert not self.changed, self.changed[:3]
        for place, body in self.seen.items():
            assert any(log.get(place) == body for log in logs), f"a consumer saw {body} at {place}, which no log has"

    def judge_order(self) -> None:
        """Check each queue: a message sent after the acknowledgement of another one comes after it."""
        queues: dict[tuple[str, int], list[Sent]] = {}
        for each in self.acknowledged:
            queues.setdefault((each.place.broker, each.place.queue_id), []).append(each)
        for sends in queues.values():
            sends.sort(key=lambda each: each.place.offset)
            for one, other in pairwise(sends):
                assert one.place != other.place, f"{one} and {other} were acknowledged with one place"
            first = sends[-1]  # acknowledged before all others from this offset on
            for each in reversed(sends):
                assert each.begun <= first.ended, f"{each} was sent after {first} was acknowledged, and is before it"
                first = min(first, each, key=lambda one: one.ended)

    def judge_epochs(self, epochs: Iterable[tuple[int, int]]) -> None:
        """Check that one broker alone acknowledged in each epoch.

        *epochs*: those of the log that took over, each with the log offset at which it starts, ascending.
        """
        numbers, starts = zip(*epochs, strict=True)
        masters: dict[int, str] = {}
        for each in self.acknowledged:
            assert each.server and each.log_offset >= starts[0], f"{each} is before the first epoch"
            epoch = numbers[bisect_right(starts, each.log_offset) - 1]
            master = masters.setdefault(epoch, each.server)
            assert each.server == master, f"{each} of epoch {epoch}, in which {master} acknowledged"

    def longest_stall_s(self) -> float:
        """Return the longest time without an acknowledgement between the first one and the last one."""
        times = sorted(each.ended for each in self.acknowledged)
        return max((after - before for before, after in pairwise(times)), default=0.0)


def records_in(files: Iterable[bytes]) -> Iterator[RecordView]:
    """Iterate over the records of log files, up to the first one that is not whole."""
    for data in files:
        place = 0
        while place + 8 <= len(data):
            size, magic = struct.unpack_from(">iI", data, place)
            if size <= 0:
                return
            if magic != MAGIC_BLANK:
                try:
                    record = read_record(data, place)
                except FormatError:
                    return
                if body_crc(record.body) != record.body_crc:
                    return
                yield record
            place += size


class Log(NamedTuple):
    """What is in the log files of a broker."""

    messages: Bodies  # of one topic
    end: int  # log offset after the last record


def read_log(files: Iterable[bytes], broker: str, topic: str) -> Log:
    """Return the messages of *topic* in log files, each with its `body_of`, and the end of the log."""
    messages, end = {}, 0
    for each in records_in(files):
        end = each.log_offset + each.total_size
        if each.topic == topic:
            messages[Place(broker, each.queue_id, each.queue_offset)] = body_of(each.body)
    return Log(messages, end)


def stored_at(offset_id: str) -> tuple[str, int]:
    """Return the address of the broker and the log offset in a broker's id of a message (IPv4)."""
    data = bytes.fromhex(offset_id)
    host, port, log_offset = struct.unpack(">4siq", data)
    return f"{'.'.join(map(str, host))}:{port}", log_offset


def body_of(body: bytes | memoryview) -> str:
    """Return a body without the dots that make it long."""
    return bytes(body).rstrip(b".").decode()
