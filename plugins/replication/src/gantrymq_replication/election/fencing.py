"""The setting ``fencing``."""

from __future__ import annotations

import enum


class Fencing(enum.Enum):
    """When a master stops by itself."""

    STRICT = "strict"
    FAILSAFE = "failsafe"
    ROCKETMQ = "rocketmq"
