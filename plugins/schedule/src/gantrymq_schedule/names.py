"""Names that both kinds of delay use.

Source: apache/rocketmq common/.../message/MessageConst.java.
"""

from __future__ import annotations

from typing import Final

__all__ = ["REAL_QUEUE_ID", "REAL_TOPIC"]

REAL_TOPIC: Final = "REAL_TOPIC"
REAL_QUEUE_ID: Final = "REAL_QID"
