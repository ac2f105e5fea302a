"""Sends rows at their scheduled time, in order, and records progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from gantrymq.plugin.world import Clock
from gantrymq_spark.jobs.replay_pace import Pace
from gantrymq_spark.sink.rows import Outbound, RowConverter
from gantrymq_spark.sink.sending import Sender

__all__ = ["Sent", "send_paced"]

MAX_TOGETHER = 500  # due rows sent at once


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
        if len(due) >= MAX_TOGETHER or at_s > clock.monotonic():
            await send()
        if (wait_s := at_s - clock.monotonic()) > 0:
            await clock.sleep(wait_s)
        due.append((made.message(dict(row), row["sinkId"]), stored_ms))
    await send()
