"""Sends rows at their time, in their order; says how far it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from gantrymq.world import Clock
from gantrymq_spark.jobs.replay_pace import Pace
from gantrymq_spark.sink.rows import Outbound, Rows
from gantrymq_spark.sink.sending import Sender

__all__ = ["Sent", "send_paced"]

MAX_TOGETHER = 500  # rows that are due, in one go


@attrs.define
class Sent:
    """How far a replay is; changes while it runs."""

    messages: int = 0
    body_bytes: int = 0
    first_ms: int | None = None  # store time of the first and of the last one sent
    last_ms: int | None = None


async def send_paced(
    rows: Iterable[Mapping[str, Any]],
    made: Rows,
    sender: Sender,
    pace: Pace,
    clock: Clock,
    sent: Sent,
    tell: Callable[[Sent], object] = lambda sent: None,
) -> None:
    """Send each row when it is due; those that are due together go together, and nothing before they are stored.

    Args:
        rows: by store time, with ``storedMs`` and ``sinkId`` beside the sink's columns.
        made: makes messages of them.
        sender: sends them.
        pace: the timetable.
        clock: of the world.
        sent: is brought up to date with each answer, and *tell* is called.

    Raises:
        ConfigError, ClientError: as `Rows` and `Sender`; *sent* then says what was stored for certain.
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
        if len(due) >= MAX_TOGETHER or at_s > clock.monotonic():
            await send()
        if (wait_s := at_s - clock.monotonic()) > 0:
            await clock.sleep(wait_s)
        due.append((made.message(dict(row), row["sinkId"]), stored_ms))
    await send()
