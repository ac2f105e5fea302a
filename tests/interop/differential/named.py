"""Known differences from a Java broker in the results of a run, by kind, with the reason.

``-`` is a line only of the Java broker's run, ``+`` one only of ours. Patterns are shell patterns, and each must match.
"""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Named(NamedTuple):
    """A known difference of one kind."""

    kind: str
    reason: str
    lines: tuple[str, ...]


OP, REVIVE, TIMER = "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer"

DIFFERENT: tuple[Named, ...] = (
    Named(
        "transaction",
        "an op message also names a half message that was checked, and is stored at the time of the decision",
        (
            f"- {OP}/0/*",
            f"+ {OP}/0/*",
            f"- offset CID_RMQ_SYS_TRANS {OP}/0: *",
            f"+ offset CID_RMQ_SYS_TRANS {OP}/0: *",
        ),
    ),
    Named(
        "pop",
        "pops and acknowledgements are in the revive log at once, not through the timer when they are due",
        (f"- {TIMER}/0/*REAL_TOPIC={REVIVE}*", f"- {REVIVE}/0/*TIMER_DEQUEUE_MS=*", f"+ {REVIVE}/*"),
    ),
    Named(
        "pop",
        "the position up to which saved offsets of groups include pops",
        (f"+ offset CID_RMQ_SYS_REVIVE_KNOWN {REVIVE}/*",),
    ),
)


def differences(java: Sequence[str], ours: Sequence[str]) -> list[str]:
    """Return the lines that only one of the two has, each after its sign."""
    return [line for line in difflib.ndiff(java, ours) if line[0] in "+-"]


def unnamed(kind: str, found: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines of *found* that match no pattern, and the patterns of this kind that match no line."""
    patterns = [pattern for named in DIFFERENT if named.kind == kind for pattern in named.lines]
    strange = [line for line in found if not any(fnmatchcase(line, pattern) for pattern in patterns)]
    return strange, [pattern for pattern in patterns if not any(fnmatchcase(line, pattern) for line in found)]
