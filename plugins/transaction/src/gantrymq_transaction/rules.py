"""Rules for decisions and checks, based on the properties of a half message. No I/O; time is an argument.

    a decision    refused (a sentence and RocketMQ's code), or accepted
    a check       wait | stop here | ask the producer | give up | carry to the end of the queue

A message without a connected producer waits, and this is not counted as a check: a Java broker counts each round, so a
producer that is offline for some minutes loses its transactions. While a message has an immunity time of its own, Java
copies it to the end of the queue in each round; here it stays where it is.

Source: apache/rocketmq broker/.../transaction/queue/TransactionalMessageServiceImpl.java (check, needDiscard,
needSkip), broker/.../processor/EndTransactionProcessor.java (rejectCommitOrRollback, checkPrepareMessage).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from gantrymq.errors import IllegalOperation, RequestError, RequestRefused
from gantrymq.plugin import properties as props

IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"

SYSTEM_ERROR: Final = 1
SYSTEM_BUSY: Final = 2

_WHOLE = re.compile(r"[+-]?[0-9]{1,18}\Z")


class Decision(enum.IntEnum):
    """A producer's decision, with its code in request 37."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


class Verdict(enum.Enum):
    """Action of a check round for one undecided message."""

    WAIT = enum.auto()  # too young, or no producer is connected
    STOP = enum.auto()  # too young, and so are all messages after it
    ASK = enum.auto()  # send a check
    GIVE_UP = enum.auto()  # move it to TRANS_CHECK_MAX_TIME_TOPIC
    CARRY = enum.auto()  # copy it to the end of the queue without counting a check, so that the position can move


class CheckSettings(NamedTuple):
    """Settings of a check round."""

    timeout_ms: int
    most_checks: int
    keep_ms: int  # age at which a message is given up, because its record is deleted from the log


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and _WHOLE.match(text) else None


def checks_of(own: Mapping[str, str]) -> int:
    """Return how many checks were sent for a message with these properties."""
    return _whole(own.get(CHECK_TIMES)) or 0


def immunity_ms_of(own: Mapping[str, str], timeout_ms: int) -> int:
    """Return the age in ms up to which a message with these properties is not checked."""
    seconds = _whole(own.get(IMMUNITY))
    return timeout_ms if seconds is None or seconds == -1 else seconds * 1000


def next_check_ms(
    own: Mapping[str, str], *, born_ms: int, timeout_ms: int, last_round_ms: int, interval_ms: int
) -> int:
    """Return the time of the next possible check of an undecided message, in ms since 1970.

    That is the first round in which the message is older than its immunity time. If no producer is connected then, it
    is checked in a later round.

    Args:
        own: properties of the half message.
        born_ms: by its producer's clock.
        timeout_ms: transactionTimeOut.
        last_round_ms: when the last round began; without one, when the broker started.
        interval_ms: transactionCheckInterval.
    """
    due_ms = max(born_ms + immunity_ms_of(own, timeout_ms), last_round_ms)
    return last_round_ms + ((due_ms - last_round_ms) // interval_ms + 1) * interval_ms


def judge_decision(
    own: Mapping[str, str],
    group: str,
    *,
    stored_at: tuple[int, int],
    named: tuple[int, int],
    from_check: bool,
    age_ms: int,
    timeout_ms: int,
) -> RequestError | None:
    """Return why a producer's decision is refused, None if it is accepted.

    Args:
        own: properties of the half message.
        group: the producer's group.
        stored_at: queue offset and log offset of the half message.
        named: queue offset and log offset in the request.
        from_check: whether the decision answers a check.
        age_ms: age of the message.
        timeout_ms: transactionTimeOut.
    """
    immunity = own.get(IMMUNITY)
    if immunity and not from_check and age_ms > max((_whole(immunity) or 0) * 1000, timeout_ms):
        return IllegalOperation(
            f"the half message at {stored_at[1]} is {age_ms} ms old and was to be decided in {immunity} s "
            f"({IMMUNITY}); its producer is checked instead",
        )
    owner = own.get(props.PRODUCER_GROUP)
    if owner != group:
        return RequestRefused(
            SYSTEM_ERROR,
            f"the half message at {stored_at[1]} belongs to producer group {owner}, not to {group}; only its own group "
            "can decide it",
        )
    if stored_at != named:
        return RequestRefused(
            SYSTEM_ERROR,
            f"the half message at log offset {stored_at[1]} has queue offset {stored_at[0]}, not {named[0]} "
            "(tranStateTableOffset); return the offsets from the response to its send",
        )
    return None


def judge_check(
    own: Mapping[str, str],
    *,
    born_ms: int,
    now_ms: int,
    checks: int,
    reachable: bool,
    crowded: bool,
    settings: CheckSettings,
) -> Verdict:
    """Return what a round that began at *now_ms* does with an undecided message.

    Args:
        own: properties of the message.
        born_ms: by its producer's clock.
        now_ms: when the round began.
        checks: number of checks that were sent.
        reachable: whether a producer of its group is connected.
        crowded: whether it holds back the position of many settled messages.
        settings: of the check round.
    """
    age_ms = now_ms - born_ms
    if checks >= settings.most_checks or age_ms > settings.keep_ms:
        return Verdict.GIVE_UP
    if 0 <= age_ms <= immunity_ms_of(own, settings.timeout_ms):
        if own.get(IMMUNITY) is None:
            return Verdict.STOP
        return Verdict.CARRY if crowded else Verdict.WAIT
    if reachable:
        return Verdict.ASK
    return Verdict.CARRY if crowded else Verdict.WAIT
