"""The gate of a broker with elected roles: nothing is acknowledged before the in-sync set has it.

What consumers see is bounded by `RawLog.limit_visibility`, because a new master has records that are not confirmed yet.
"""

from __future__ import annotations

from typing import Protocol

from gantrymq.config import Settings
from gantrymq.errors import Unconfirmed
from gantrymq_replication.waits import Answer, OffsetGate

__all__ = ["Confirming", "ElectedGate"]


class Confirming(Protocol):
    """The broker, as the gate asks it."""

    @property
    def leads(self) -> bool:
        """Whether this broker is the master, or about to be."""

    @property
    def confirmed(self) -> int:
        """The log offset up to which every member of the in-sync set has the log, as far as this broker knows."""

    def stored(self, log_offset: int) -> None:
        """Take that the log is appended up to *log_offset*, and on the disk if acknowledgements wait for that."""

    def unconfirmed(self, log_offset: int) -> str:
        """Return why what ends at *log_offset* may not be acknowledged at this moment; empty if it may."""


class ElectedGate(OffsetGate):
    """Waits for the confirm offset while this broker is the master. `last_look` decides how senders are answered."""

    name = "elected"

    def __init__(self) -> None:
        super().__init__()
        self._broker: Confirming | None = None

    def applies(self, settings: Settings) -> bool:
        """Return whether roles are elected."""
        return settings.flag("enableControllerMode")

    def open(self, broker: Confirming, late_s: float) -> None:
        """Begin; senders wait for *late_s* seconds at most."""
        self._broker, self.late_s = broker, late_s

    def ask(self, log_offset: int, answer: Answer) -> None:
        """Answer when the in-sync set has the log up to *log_offset*."""
        if self._broker is None or not self._broker.leads:
            answer(None)
            return
        self._broker.stored(log_offset)
        if self._broker.confirmed >= log_offset:
            answer(None)
        else:
            self._wait(log_offset, answer)

    def last_look(self, log_offset: int) -> Unconfirmed | None:
        """Compare the time once more, right before senders are answered."""
        problem = self._broker.unconfirmed(log_offset) if self._broker is not None else ""
        return Unconfirmed(f"stored, but {problem}", Unconfirmed.FLUSH_SLAVE_TIMEOUT) if problem else None

    def look(self) -> None:
        """Let pass what is confirmed now."""
        if self._waiting and self._broker is not None:
            self._pass(self._broker.confirmed)

    def release(self) -> None:
        """End all waits, because this broker is not the master any more."""
        self._pass(1 << 63)
