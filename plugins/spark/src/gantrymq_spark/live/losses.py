"""Messages that a query should read and no longer can: each one a line of the report.

With ``failOnDataLoss`` true, which is the default, a query fails with the report; with false it goes on and the report
is logged as warnings.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence

import attrs

from gantrymq.errors import GantryError
from gantrymq.model.queue import MessageQueue
from gantrymq_spark.report.texts import counted

__all__ = ["DataLost", "Loss", "LossKind", "report_losses"]

logger = logging.getLogger(__name__)
_MOST_LINES = 20  # of a report


class LossKind(enum.Enum):
    """Why. Values are what the report says."""

    EXPIRED = "are no longer in the queue; the broker has deleted them (fileReservedTime)"
    RECREATED = "were read, or were to be, of a topic that was deleted; a topic of that name was made since"
    TRUNCATED = "are not in the queue, which ends before them; the broker has lost the end of its log"
    QUEUE_GONE = "and later ones cannot be read, as the queue is no longer there (topic deleted, or fewer read queues)"


class DataLost(GantryError):
    """Messages cannot be read, and ``failOnDataLoss`` is true."""


@attrs.frozen
class Loss:
    """Queue offsets *first* to *end* (without it) of one queue; *end* None where nobody knows."""

    kind: LossKind
    queue: MessageQueue
    first: int
    end: int | None = None

    def __str__(self) -> str:
        """One sentence."""
        queue = f"{self.queue.topic}, {self.queue.broker_name}, queue {self.queue.queue_id}"
        offsets = f"offset {self.first}" if self.end is None else f"offsets {self.first} to {self.end - 1}"
        return f"{queue}: {offsets} {self.kind.value}"


def report_losses(losses: Sequence[Loss], *, fail: bool) -> None:
    """Log a report of *losses*, or fail with it.

    Raises:
        DataLost: *fail*, and there is one.
    """
    if not losses:
        return
    if not fail:
        for loss in losses:
            logger.warning("%s; going on without them, as failOnDataLoss is false", loss)
        return
    lines = [str(loss) for loss in losses[:_MOST_LINES]]
    if len(losses) > _MOST_LINES:
        lines.append(f"and {counted(len(losses) - _MOST_LINES, 'queue')} more")
    raise DataLost(
        "messages cannot be read any more; set failOnDataLoss to false to go on without them: " + "; ".join(lines)
    )
