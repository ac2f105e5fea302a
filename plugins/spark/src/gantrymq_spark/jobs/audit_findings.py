"""Findings of an audit: one for each fault or remarkable fact.

| check | finding |
|---|---|
| `queue.gap` | queue offsets without a record, not explained by damage of the log |
| `queue.duplicate` | queue offsets that an earlier record already has |
| `queue.order` | a record after records of later queue offsets |
| `queue.time` | a record stored before the previous one: the broker's clock went back |
| `queue.restart` | offsets start at 0 again: the topic was deleted and recreated (no fault) |
| `key.duplicate` | one unique key at two positions of a topic that are not one batch |
| `body.crc` | a body that does not match its CRC |
| `log.damaged` | a range of the log without a sound record, and the queue offsets that it cost |
| `transaction.open` | a half message that was never committed, rolled back or discarded |
| `transaction.orphan` | a committed message without a half message at its stated log offset |
| `delay.late`, `delay.lost` | a delayed message that was delivered late, or not at all |
| `dead_letter` | messages that a group gave up |
| `lag` | a group with too much lag |
"""

from __future__ import annotations

from typing import Any

import attrs


@attrs.frozen
class AuditFinding:
    """One finding."""

    check: str
    text: str  # one sentence
    broker_name: str = ""
    topic: str = ""
    queue_id: int = -1  # -1 if it does not concern one queue
    queue_offset: int = -1  # of the first message concerned
    log_offset: int = -1  # bytes; of its record, or of the missing record
    count: int = 1  # messages, or queue offsets
    fault: bool = True  # False: informational

    def to_json(self) -> dict[str, Any]:
        """Return the members."""
        return attrs.asdict(self)
