"""Ledger of a client's operations with delayed, timed, transactional, popped and failed messages, and their answers.

Times are virtual: ``_at`` is the monotonic time in seconds of an answer (None: no answer), ``_ms`` wall time.
"""

from __future__ import annotations

from collections import defaultdict

import attrs

from gantrymq.model.queue import Queue

TOPICS = {"level": "KD", "timer": "KW", "transaction": "KT", "popped": "KP", "failed": "KF"}
PRODUCERS, CONSUMERS, POPPERS = "KPG", "KCG", "KPOP"
RETRY, DEAD = f"%RETRY%{CONSUMERS}", f"%DLQ%{CONSUMERS}"
MOST_TRIES = 2


@attrs.define
class Odd:
    """One message; it is sent once."""

    kind: str
    body: bytes
    unique_id: str
    queue_id: int = 0
    sent_at: float | None = None  # acknowledged
    due_ms: int = 0  # must not be delivered before
    handle: str = ""  # of a timer
    recall_asked: bool = False
    recalled_at: float | None = None
    commits: bool = True
    told_ms: int = 0  # its decision was told first, 0 before
    decided_at: float | None = None  # a decision was acknowledged
    fields: dict[str, str] = attrs.field(factory=dict)  # by which its producer ends it
    hidden_ms: int = 0  # must not be popped before
    hidden_at: float | None = None  # that is on record since
    pops: int = 0
    asked_ack: bool = False
    acked_at: float | None = None
    failures: int = 0  # how often it is to fail


@attrs.define
class SentBack:
    """One try of a message that failed."""

    attempts: int = 0
    at: float | None = None  # acknowledged


@attrs.define
class Losses:
    """Operations that may be lost: acknowledged from *since* until *until*, the moment of the last power cut."""

    since: float | None = None
    until: float = 0.0

    def sure(self, at: float | None) -> bool:
        """Whether an operation acknowledged *at* must be kept."""
        return at is not None and (self.since is None or not self.since <= at <= self.until)


@attrs.define
class KindsLedger:
    """One run, of several processes."""

    sent: dict[bytes, Odd] = attrs.field(factory=dict)  # by body
    back: dict[tuple[bytes, int], SentBack] = attrs.field(factory=lambda: defaultdict(SentBack))  # by try, from 0
    consumed: set[bytes] = attrs.field(factory=set)
    commits: list[tuple[float, Queue, int]] = attrs.field(factory=list)  # acknowledged: when, and which
    highest: dict[Queue, int] = attrs.field(factory=dict)  # requested commit
    asked: dict[bytes, list[int]] = attrs.field(factory=lambda: defaultdict(list))  # checks: in which process
    refused: int = 0  # requests answered with an error
    problems: list[str] = attrs.field(factory=list)

    def write(self, kind: str, **more: object) -> Odd:
        """A new message."""
        number = len(self.sent)
        sent = Odd(kind, f"{kind}/{number}/".encode().ljust(60 + number * 37 % 400, b"."), f"{number:032X}", **more)  # type: ignore[arg-type]
        self.sent[sent.body] = sent
        return sent

    def of(self, kind: str) -> list[Odd]:
        """Return the operations of one kind."""
        return [sent for sent in self.sent.values() if sent.kind == kind]
