"""Ledger of sent and acknowledged messages, and its comparison with a store that is read back.

Every body begins with ten digits, the message's number; the ledger holds a hash of the whole body.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

import attrs

from gantrymq.client import SendResult
from gantrymq.client.message import Message, ReceivedMessage

NUMBER_DIGITS = 10
SHORTEST, LONGEST = NUMBER_DIGITS, 20 * 1024  # bytes of a body


class MessagePosition(NamedTuple):
    """Where a message is to be read."""

    topic: str
    queue_id: int
    queue_offset: int


class QueueContent(NamedTuple):
    """All that one queue has, as a consumer reads it."""

    min_offset: int
    max_offset: int
    messages: Sequence[ReceivedMessage]  # in the order in which they came


@attrs.define
class Sent:
    """One message on its way."""

    topic: str
    digest: bytes
    place: MessagePosition | None = None  # once acknowledged


@attrs.define
class Findings:
    """Result of reading everything back."""

    sent: int = 0
    acknowledged: int = 0
    found: int = 0
    unacknowledged_found: int = 0
    lost: int = 0  # acknowledged, not there
    duplicated: int = 0  # there more than once
    moved: int = 0  # acknowledged at another place than where it is
    damaged: int = 0  # another body than the one sent
    foreign: int = 0  # never sent
    gaps: int = 0  # queues with gaps or repetitions in their offsets
    missing_topics: int = 0
    unseen: int = 0  # a consumer saw it before the stop, it is not there any more
    holes: int = 0  # queue offsets of unacknowledged messages, where these are allowed
    examples: list[str] = attrs.field(factory=list)

    @property
    def problems(self) -> int:
        """How many things are wrong."""
        return (
            self.lost + self.duplicated + self.moved + self.damaged + self.foreign + self.gaps + self.missing_topics
        ) + self.unseen

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {value}" for name, value in attrs.asdict(self).items() if name not in ("examples",))
        return "\n  ".join([counts, *self.examples[:20]])

    def wrong(self, kind: str, sentence: str) -> None:
        """Count one problem of *kind*."""
        setattr(self, kind, getattr(self, kind) + 1)
        self.examples.append(f"{kind}: {sentence}")


class Ledger:
    """The sender's side of the truth; grows over all rounds of a test."""

    def __init__(self) -> None:
        self.messages: list[Sent] = []  # by number
        self.acknowledged = 0
        self.topics: dict[str, int] = {}  # acknowledged topics and their queues
        self.seen: dict[MessagePosition, int] = {}  # messages a consumer got during the load
        self.refusals: list[str] = []  # sends that failed although the broker was up
        self._last: dict[tuple[str, str, int], int] = {}  # newest offset by sender and queue
        self._used: dict[MessagePosition, int] = {}

    def write(
        self, topic: str, rng: random.Random, *, size: int | None = None, wait_stored: bool = True
    ) -> tuple[int, Message]:
        """A new message and its number; by default from 10 B to 20 KB, every order of magnitude alike."""
        number = len(self.messages)
        if size is None:
            size = round(SHORTEST * (LONGEST / SHORTEST) ** rng.random())
        body = f"{number:0{NUMBER_DIGITS}d}".encode() + rng.randbytes(size - NUMBER_DIGITS)
        self.messages.append(Sent(topic, digest(body)))
        return number, Message(topic, body, tags=f"Tag{number % 3}", keys=str(number), wait_stored=wait_stored)

    def acknowledge(self, sender: str, numbers: Sequence[int], result: SendResult) -> None:
        """Record that the messages *numbers* were stored consecutively; *sender* sends one request at a time."""
        self.topics.setdefault(result.queue.topic, 0)
        queue = (sender, result.queue.topic, result.queue.queue_id)
        assert result.queue_offset > self._last.get(queue, -1), f"{queue}: {result.queue_offset} after {self._last}"
        self._last[queue] = result.queue_offset + len(numbers) - 1
        for step, number in enumerate(numbers):
            place = MessagePosition(result.queue.topic, result.queue.queue_id, result.queue_offset + step)
            other = self._used.setdefault(place, number)
            assert other == number, f"{place} was given to {other} and to {number}"
            self.messages[number].place = place
        self.acknowledged += len(numbers)

    def compare(
        self, content: Mapping[tuple[str, int], QueueContent], topics: Iterable[str], *, holes: bool = False
    ) -> Findings:
        """Compare the ledger with the messages in every queue of the broker, and its topics.

        With *holes* a queue offset may have no message: after a power cut that lost pages of unacknowledged messages. A
        missing acknowledged message is found by its number.
        """
        findings = Findings(sent=len(self.messages), acknowledged=self.acknowledged)
        places: dict[int, list[MessagePosition]] = {}
        for (topic, queue_id), queue in content.items():
            offsets = [message.queue_offset for message in queue.messages]
            wanted = range(queue.min_offset, queue.max_offset)
            if holes and offsets == sorted(set(offsets) & set(wanted)):
                findings.holes += len(wanted) - len(offsets)
                wanted = offsets
            if offsets != list(wanted) or queue.min_offset != 0:
                findings.wrong("gaps", f"{topic}/{queue_id} is {queue.min_offset}..{queue.max_offset}, read {offsets}")
            for message in queue.messages:
                self._meet(message, MessagePosition(topic, queue_id, message.queue_offset), places, findings)
        findings.found = sum(map(len, places.values()))
        for number, sent in enumerate(self.messages):
            here = places.get(number, [])
            if sent.place is None:
                findings.unacknowledged_found += len(here)
            elif not here:
                findings.wrong("lost", f"message {number} was acknowledged at {sent.place}")
            elif sent.place not in here:
                findings.wrong("moved", f"message {number} was acknowledged at {sent.place} and is at {here}")
            if len(here) > 1:
                findings.wrong("duplicated", f"message {number} is at {here}")
        known = set(topics)
        for topic in self.topics:
            if topic not in known:
                findings.wrong("missing_topics", topic)
        for place, number in self.seen.items():
            if place not in places.get(number, []):
                findings.wrong("unseen", f"message {number} was read at {place} before the broker ended")
        return findings

    def _meet(
        self,
        message: ReceivedMessage,
        place: MessagePosition,
        places: dict[int, list[MessagePosition]],
        findings: Findings,
    ) -> None:
        head = message.body[:NUMBER_DIGITS]
        number = int(head) if head.isdigit() else -1
        if not 0 <= number < len(self.messages):
            findings.wrong("foreign", f"{place}: {message.body[:20]!r}")
            return
        places.setdefault(number, []).append(place)
        sent = self.messages[number]
        if digest(message.body) != sent.digest or sent.topic != place.topic or message.keys != str(number):
            findings.wrong("damaged", f"message {number} at {place}, {len(message.body)} bytes, keys {message.keys}")


def number_of(message: ReceivedMessage) -> int:
    """The number that a body of `Ledger.write` begins with."""
    return int(message.body[:NUMBER_DIGITS])


def digest(body: bytes) -> bytes:
    """Hash of a body."""
    return blake2b(body, digest_size=16).digest()


def summary(ledger: Ledger) -> str:
    """Return the content of the ledger by topic."""
    topics = Counter(sent.topic for sent in ledger.messages)
    return ", ".join(f"{topic} {count}" for topic, count in sorted(topics.items()))
