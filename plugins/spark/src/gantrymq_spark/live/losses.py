"""Reports of messages that a query should read and no longer can.

With ``failOnDataLoss`` true, the default, a query fails with the report. With false it continues, and the report is
logged as warnings.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Sequence

import attrs

from gantrymq.errors import GantryError
from gantrymq.plugin.model import MessageQueue
from gantrymq_store_tools.findings import counted

logger = logging.getLogger(__name__)
_MAX_LINES = 20  # of a report


class LossKind(enum.Enum):
    """The reason of a loss. Values are the words of the report."""

    EXPIRED = "are no longer in the queue; the broker has deleted them (fileReservedTime)"
    RECREATED = "belong to a topic that was deleted; a topic of that name was created since"
    TRUNCATED = "are not in the queue, which ends before them; the broker has lost the end of its log"
    QUEUE_GONE = "and later ones cannot be read, as the queue no longer exists (topic deleted, or fewer read queues)"


class DataLost(GantryError):
    """Raised when messages cannot be read and ``failOnDataLoss`` is true."""


@attrs.frozen
class Loss:
    """Queue offsets *first* to *end* (exclusive) of one queue; *end* is None if unknown."""

    kind: LossKind
    queue: MessageQueue
    first: int
    end: int | None = None

    def __str__(self) -> str:
        """Return the loss as one sentence."""
        queue = f"{self.queue.topic}, {self.queue.broker_name}, queue {self.queue.queue_id}"
        offsets = f"offset {self.first}" if self.end is None else f"offsets {self.first} to {self.end - 1}"
        return f"{queue}: {offsets} {self.kind.value}"


def report_losses(losses: Sequence[Loss], *, fail: bool) -> None:
    """Log *losses*, or fail with them.

    Raises:
        DataLost: *fail* is true and there are losses.
    """
    if not losses:
        return
    if not fail:
        for loss in losses:
            logger.warning("%s; continuing without them, as failOnDataLoss is false", loss)
        return
    lines = [str(loss) for loss in losses[:_MAX_LINES]]
    if len(losses) > _MAX_LINES:
        lines.append(f"and {counted(len(losses) - _MAX_LINES, 'queue')} more")
    raise DataLost(
        "messages cannot be read any more; set failOnDataLoss to false to continue without them: " + "; ".join(lines)
    )
