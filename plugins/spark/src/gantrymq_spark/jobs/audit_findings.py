"""What an audit says: one finding for each thing that is wrong.

| check | what was found |
|---|---|
| `queue.gap` | queue offsets without a record, and the log has no damage there |
| `queue.duplicate` | queue offsets that a record before has already |
| `queue.order` | a record that stands behind those of later queue offsets |
| `queue.time` | a record stored before the one in front of it: the broker's clock went back |
| `queue.restart` | offsets begin at 0 again: the topic was deleted and made anew (no fault) |
| `key.duplicate` | one unique key at two places of a topic that are not one batch |
| `body.crc` | a body that is not what its CRC says |
| `log.damaged` | a stretch of the log without a sound record, and the queue offsets that it cost |
| `transaction.open` | a half message that nobody has committed, rolled back or discarded |
| `transaction.orphan` | a committed message whose half message is not where it says |
| `delay.late`, `delay.lost` | a delayed message that came too late, or has not come |
| `dead_letter` | messages that a group gave up |
| `lag` | a group that is too far behind |
"""

from __future__ import annotations

from typing import Any

import attrs

__all__ = ["AuditFinding"]


@attrs.frozen
class AuditFinding:
    """One thing."""

    check: str
    text: str  # one sentence
    broker_name: str = ""
    topic: str = ""
    queue_id: int = -1  # -1 for no certain one
    queue_offset: int = -1  # of the first message that it is about
    log_offset: int = -1  # bytes; where its record is, or would be
    count: int = 1  # messages, or queue offsets
    fault: bool = True  # False: worth knowing, nothing is wrong

    def to_json(self) -> dict[str, Any]:
        """The members."""
        return attrs.asdict(self)
