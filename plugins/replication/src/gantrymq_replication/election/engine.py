"""Interface of an engine of elections: a service that keeps the master, its epoch and the in-sync set of a broker name.

`controller` is the engine on RocketMQ's controller, `etcd` the one on etcd. A third one needs no change elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol

from gantrymq.errors import GantryError
from gantrymq_replication.election.machine import Standing
from gantrymq_replication.election.sync_set import Alter

OnNews = Callable[[Standing | None], None]
OnLost = Callable[[str], None]

NO_BROKER_IDS: Final = 1 << 32  # ids from here on are of no broker: an engine elects one to begin another epoch


def listed(broker_ids: Iterable[int]) -> str:
    """Return broker ids for a sentence, as in ``1, 3``; "none" without one."""
    return ", ".join(map(str, sorted(broker_ids))) or "none"


def not_clean(broker_id: int) -> str:
    """Return the beginning of the sentence that says why a broker whose log is not whole is not elected."""
    return f"broker id {broker_id} did not stop cleanly, so that its log may lack acknowledged messages: "


def waits_for(least: int, missing: Iterable[int]) -> str:
    """Return the end of that sentence if fewer than *least* members of the set are there; *missing* are not."""
    return (
        f"it waits until {least} members of the in-sync set can compare their logs, for broker id {listed(missing)}, "
        "or until a person elects one with 'gantrymq cluster promote --unclean'"
    )


def longer(end: int, broker_id: int) -> str:
    """Return the end of that sentence if a living member has a longer log than this broker, whose log ends at *end*."""
    return f"it ends at {end}, and broker id {broker_id}, whose log is longer, is elected first"


class EngineError(GantryError):
    """A call of an engine failed; the sentence is the reason."""


class EngineUnreachable(EngineError):
    """There is no answer. The call may have an effect, now or later."""


class EngineRefused(EngineError):
    """The engine refused. The call has no effect."""


class Progress(NamedTuple):
    """The state of its log that a broker reports."""

    epoch: int  # the last one of its epoch list
    end: int  # log offset; the end that is on the disk, if acknowledgements wait for that
    confirmed: int
    electable: bool = True  # whether it may be elected now
    whole: bool = True  # False: an unclean stop may have taken acknowledged messages from it


NOTHING: Final = Progress(-1, 0, 0)


class Answer(NamedTuple):
    """A standing, and the monotonic time before the request from which the engine's promise to a master counts."""

    standing: Standing
    asked_at: float


class Terms(NamedTuple):
    """The promise of an engine to a master."""

    lease_s: float  # a master that is named in an answer is not replaced before `asked_at` + `lease_s`
    renew_s: float  # between two renewals
    fences_on_loss: bool  # the engine may elect another one as soon as the connection breaks


class Engine(Protocol):
    """One broker's access to the engine. Calls raise `EngineUnreachable` or `EngineRefused`, and nothing else."""

    terms: Terms

    async def open(self, on_news: OnNews, on_lost: OnLost, progress: Progress = NOTHING) -> int:
        """Find or acquire this broker's id in the set, register, and return the id.

        Args:
            on_news: called with standings that the engine has read because of a change, or with None if there is said
                to be a new one, which is then read with `renew`.
            on_lost: called with a sentence when the connection breaks.
            progress: of this broker's log.
        """

    async def renew(self, progress: Progress) -> Answer:
        """Report that this broker is alive, extend its lease if it is the master, and return the standing."""

    async def elect(self, progress: Progress) -> Answer:
        """Try to become the master, because there is none; return the standing, which may name another broker.

        Raises `EngineRefused` if no broker can be elected; the sentence says why.
        """

    async def has(self, broker_id: int) -> bool:
        """Return whether a broker of this set was given *broker_id*; it need not be alive."""

    async def forget(self, broker_id: int) -> None:
        """Forget a broker that `has` knows, and that is gone for good; `EngineRefused` if it is alive."""

    async def not_whole(self, progress: Progress) -> str:
        """Return why this broker must not be elected yet, as its log may lack acknowledged messages; empty if it may.

        Asked for a log that is not whole, until it is. An engine that looks at that in `elect` returns nothing.
        """

    async def alter(self, epoch: int, change: Alter) -> tuple[frozenset[int], int]:
        """Replace the in-sync set as the master of *epoch*; return the new set and its set epoch."""

    async def hand_over(self, epoch: int, broker_id: int, *, leaves: bool = False) -> None:
        """Hand over to another member of the in-sync set, as the master of *epoch*; *leaves*: see `resign`."""

    async def admit(self, broker_id: int, *, unclean: bool, epoch: int = 0) -> None:
        """Have *broker_id* elected next, on the decision of an operator; there is no master.

        Args:
            broker_id: of a living broker, a member of the in-sync set unless *unclean*.
            unclean: it may lack acknowledged messages, which are lost then.
            epoch: the newest one that a broker knows; if *unclean*, the next one is later, because brokers accept no
                older one from an engine that has lost its data.
        """

    async def resign(self) -> None:
        """End this broker's mastership, after it has stopped to acknowledge: another one may be elected at once."""

    async def close(self) -> None:
        """End the connection; the engine forgets this broker after a while."""
