"""What the members of one group received and answered, and what must hold for it.

A message that a member holds is delivered to no other member: for its invisible time, or, if it is renewed, as long as
the member is alive. A restart of the broker ends renewals, not the invisible time. A message that was acknowledged is
never delivered again, and those of a member that has gone come back in time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import attrs

from gantrymq.model.receipt import Receipt
from gantrymq.world import Clock

QUIET_S = 100.0  # a member whose last heartbeat is older may have expired
IN_FLIGHT_S = 4.0  # a connection that breaks this close to the end of a receive may have lost that
BACK_S = 200.0  # messages of a member that was killed
SOON_BACK_S = 60.0  # those of one that said it goes
RENEWED_S = 3 * 3600.0
OFFSETS_MS = 6_000  # ordered groups acknowledge by their offsets, which are saved every 5 s


class Member(Protocol):
    """A member, as far as its deliveries depend on it."""

    name: str

    @property
    def heard_s(self) -> float:
        """When the broker has heard it last, as it knows."""

    @property
    def lost_s(self) -> float:
        """When its connection was lost last."""


@attrs.define(eq=False)
class Hold:
    """A message in the hands of a member."""

    member: Member = attrs.field(repr=lambda member: member.name)
    body: bytes = attrs.field(repr=lambda body: repr(body[:40]))
    receipt: Receipt
    renewed: bool
    restarts: int
    arrived_s: float
    is_over: bool = False  # the member has answered, or is gone


class Deliveries:
    """The deliveries to one group."""

    def __init__(self, group: str, clock: Clock, ends_ms: Sequence[int], *, ordered: bool, jumps: bool) -> None:
        """*ends_ms*: of the broker's processes so far. *jumps*: its wall clock is set."""
        self.bugs: list[str] = []
        self.repeats: list[tuple[bytes, str]] = []  # bugs unless the message was sent several times
        self.copied: set[bytes] = set()  # messages that a fault may have repeated while they were in flight
        self.counts: Counter[bytes] = Counter()
        self.first_ms: dict[bytes, int] = {}  # wall clock of the broker
        self.acked_ms: dict[bytes, int] = {}  # when the answer arrived
        self.unanswered: set[bytes] = set()  # acknowledgements whose outcome is not known
        self._group = group
        self._clock = clock
        self._ends_ms = ends_ms
        self._ordered = ordered
        self._jumps = jumps
        self._held: dict[bytes, Hold] = {}
        self._due: dict[bytes, tuple[float, int, str]] = {}  # messages that must come back: until, restarts, why
        self._reached: Counter[tuple[str, int]] = Counter()  # next offset of each queue of an ordered group

    def took(self, member: Member, body: bytes, receipt: Receipt, *, renewed: bool, asked_ms: int) -> Hold:
        """Record a delivery. *asked_ms*: when the member asked for messages."""
        self.counts[body] += 1
        self.first_ms.setdefault(body, receipt.pop_ms)
        popped_ms = asked_ms if self._jumps else receipt.pop_ms
        acked_ms = self.acked_ms.get(body)
        if acked_ms is not None and acked_ms < popped_ms and not self._is_forgotten(acked_ms):
            self._repeat(body, f"was acknowledged at {acked_ms} and delivered again at {popped_ms} to {member.name}")
        before = self._held.get(body)
        if before is not None and self._is_valid(before, popped_ms):
            self._repeat(body, f"was delivered at {popped_ms} to {member.name} and is held as {before}")
        self._due.pop(body, None)
        hold = self._held[body] = Hold(member, body, receipt, renewed, len(self._ends_ms), self._clock.monotonic())
        return hold

    def process(self, queue: tuple[str, int], offset: int) -> None:
        """Record that a message of an ordered group is processed: no earlier one of its queue may be left."""
        if offset > self._reached[queue]:
            self._bug(f"offset {offset} of {queue} was processed before {self._reached[queue]}")
        self._reached[queue] = max(self._reached[queue], offset + 1)

    def acked(self, hold: Hold) -> None:
        """Record an acknowledgement that was answered with success."""
        hold.is_over = True
        if self._is_in_flight(hold):
            self.copied.add(hold.body)
        self.unanswered.discard(hold.body)
        self.acked_ms.setdefault(hold.body, self._clock.now_ms())

    def refused(self, hold: Hold, status: Any, *, first: bool) -> None:
        """Record that an acknowledgement was refused: the message is no longer the member's. *first*: its first try."""
        if first:
            self.unanswered.discard(hold.body)
        if self._is_valid(hold, self._clock.now_ms()) and hold.body not in self.acked_ms:
            self._bug(f"an acknowledgement was refused with {status} for {hold}")
        hold.is_over = True

    def changed(self, hold: Hold) -> None:
        """Record the end of a change: if the broker was restarted before its answer, it may have stored half of it."""
        if hold.restarts != len(self._ends_ms):
            self.copied.add(hold.body)

    def gone(self, member: Member) -> None:
        """Record that a member is gone, or begins to say so; its messages come back."""
        until = self._clock.monotonic() + BACK_S
        for body, hold in self._held.items():
            if hold.member is member and not hold.is_over:
                hold.is_over = True
                if hold.renewed and hold.restarts == len(self._ends_ms) and body not in self.unanswered:
                    self._due[body] = until, hold.restarts, member.name

    def said(self, member: Member) -> None:
        """Record that the broker knows that a member is gone: its messages come back sooner."""
        until = self._clock.monotonic() + SOON_BACK_S
        for body, (_, restarts, name) in list(self._due.items()):
            if name == member.name:
                self._due[body] = until, restarts, name

    def late(self) -> Iterator[str]:
        """Iterate over messages that should have come back by now, as sentences."""
        for body, (until, restarts, name) in self._due.items():
            if restarts == len(self._ends_ms) and self._clock.monotonic() > until and body not in self.acked_ms:
                yield f"{self._group}: {body[:40]!r} of {name}, which is gone, did not come back until {until}"

    def _is_in_flight(self, hold: Hold) -> bool:
        """Return whether the connection broke while the broker may not have known that the message was received."""
        return abs(hold.member.lost_s - hold.arrived_s) < IN_FLIGHT_S

    def _is_forgotten(self, acked_ms: int) -> bool:
        """Return whether the broker may have lost the acknowledgement: a saved offset of an ordered group is older."""
        return self._ordered and any(0 <= end - acked_ms < OFFSETS_MS for end in self._ends_ms)

    def _is_valid(self, hold: Hold, at_ms: int) -> bool:
        """Return whether nobody else may have received the message at *at_ms*, wall clock of the broker."""
        if hold.is_over or self._jumps or hold.body in self.unanswered:
            return False
        if self._is_in_flight(hold):
            return False
        now = self._clock.monotonic()
        if hold.restarts != len(self._ends_ms):
            return not self._ordered and at_ms < hold.receipt.due_ms
        if hold.renewed:
            return now - hold.member.heard_s < QUIET_S and now - hold.arrived_s < RENEWED_S
        return at_ms < hold.receipt.due_ms

    def _repeat(self, body: bytes, text: str) -> None:
        self.repeats.append((body, f"{self._group}: {body[:40]!r} {text}"))

    def _bug(self, text: str) -> None:
        self.bugs.append(f"{self._group}: {text}")
