"""Names of protocol versions, which clients send as a number.

Source: apache/rocketmq common/.../MQVersion.java: from 4.0.0 on, ten patches of ten minor versions of each major
version, each with a snapshot before it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["version_name"]

FIRST: Final = 212  # 4.0.0-SNAPSHOT
LAST: Final = 611  # 5.9.9


def version_name(number: int) -> str:
    """Return the name of a version, such as ``5.3.3`` for 479; the number itself if it is none of RocketMQ 4 and 5."""
    if not FIRST <= number <= LAST:
        return str(number)
    place, released = divmod(number - FIRST, 2)
    major, rest = divmod(place, 100)
    return f"{major + 4}.{rest // 10}.{rest % 10}" + ("" if released else "-SNAPSHOT")
