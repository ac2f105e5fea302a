"""Sends rows of a replay at their scheduled time, in order, and records progress.

The schedule has the intervals of the original store times, divided by the speed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import Clock
from gantrymq_spark.sink.rows import Outbound, RowConverter
from gantrymq_spark.sink.sending import Sender

_MAX = "max"
_MAX_TOGETHER = 500  # due rows sent at once


def read_speed(text: str) -> float | None:
    """Parse ``1x``, ``10x``, ``0.5x``; return the factor, None for ``max``.

    Raises:
        ConfigError: *text* is malformed, or not between 0.001x and 100000x.
    """
    word = text.strip().lower()
    if word == _MAX:
        return None
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)x", word, re.ASCII)
    if found is None or not 0.001 <= float(found[1]) <= 100_000:
        raise ConfigError(f"{text!r} is not a speed; write 1x, 10x, another number from 0.001x to 100000x, or max")
    return float(found[1])


class Pace:
    """The schedule of one replay; starts with the first message passed to it."""

    def __init__(self, speed: float) -> None:
        """*speed*: above 0."""
        self._speed = speed
        self._begun: tuple[int, float] | None = None

    def due_s(self, stored_ms: int, now_s: float) -> float:
        """Return when to send a message, on the clock of *now_s*; in the past for a late message, to be sent at once.

        Args:
            stored_ms: its store time, ms since 1970; not before that of the first message.
            now_s: seconds of a monotonic clock.
        """
        if self._begun is None:
            self._begun = stored_ms, now_s
        first_ms, begun_s = self._begun
        return begun_s + (stored_ms - first_ms) / 1000 / self._speed


@attrs.define
class Sent:
    """The progress of a replay, updated while it runs."""

    messages: int = 0
    body_bytes: int = 0
    first_ms: int | None = None  # store time of the first and of the last message sent
    last_ms: int | None = None


async def send_paced(
    rows: Iterable[Mapping[str, Any]],
    made: RowConverter,
    sender: Sender,
    pace: Pace,
    clock: Clock,
    sent: Sent,
    tell: Callable[[Sent], object] = lambda sent: None,
) -> None:
    """Send each row when it is due. Rows due at the same time are sent together; later rows wait until they are stored.

    Args:
        rows: by store time, with ``storedMs`` and ``sinkId`` in addition to the sink's columns.
        made: converts rows to messages.
        sender: sends them.
        pace: the schedule.
        clock: of the world.
        sent: updated after each send, then *tell* is called.

    Raises:
        ConfigError, ClientError: as `RowConverter` and `Sender`; *sent* then has what is known to be stored.
    """
    due: list[tuple[Outbound, int]] = []

    async def send() -> None:
        if due:
            await sender.send(each for each, _ in due)
            sent.messages += len(due)
            sent.body_bytes += sum(len(each.message.body) for each, _ in due)
            sent.first_ms = due[0][1] if sent.first_ms is None else sent.first_ms
            sent.last_ms = due[-1][1]
            due.clear()
            tell(sent)

    for row in rows:
        stored_ms = row["storedMs"]
        at_s = pace.due_s(stored_ms, clock.monotonic())
        if len(due) >= _MAX_TOGETHER or at_s > clock.monotonic():
            await send()
        if (wait_s := at_s - clock.monotonic()) > 0:
            await clock.sleep(wait_s)
        due.append((made.message(dict(row), row["sinkId"]), stored_ms))
    await send()
