"""What a run leaves otherwise than at a Java broker, by kind, with the reason.

``-`` is a line that only the Java broker's run had, ``+`` one that only ours has; patterns are those of the shell, and
each must be met.
"""

import difflib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple


class Named(NamedTuple):
    """One difference of one kind."""

    kind: str
    reason: str
    lines: tuple[str, ...]


OP, REVIVE, TIMER = "RMQ_SYS_TRANS_OP_HALF_TOPIC", "rmq_sys_REVIVE_LOG_DefaultCluster", "rmq_sys_wheel_timer"

DIFFERENT: tuple[Named, ...] = (
    Named(
        "transaction",
        "an op message names a half message that was checked, too, and is there when the decision is",
        (
            f"- {OP}/0/*",
            f"+ {OP}/0/*",
            f"- offset CID_RMQ_SYS_TRANS {OP}/0: *",
            f"+ offset CID_RMQ_SYS_TRANS {OP}/0: *",
        ),
    ),
    Named(
        "pop",
        "what is popped and acknowledged is in the revive log at once, not by way of the timer when it is due",
        (f"- {TIMER}/0/*REAL_TOPIC={REVIVE}*", f"- {REVIVE}/0/*TIMER_DEQUEUE_MS=*", f"+ {REVIVE}/*"),
    ),
    Named(
        "pop",
        "how far the saved offsets of groups count what pops said",
        (f"+ offset CID_RMQ_SYS_REVIVE_KNOWN {REVIVE}/*",),
    ),
)


def differences(java: Sequence[str], ours: Sequence[str]) -> list[str]:
    """The lines that one has and the other has not, with a sign before each."""
    return [line for line in difflib.ndiff(java, ours) if line[0] in "+-"]


def unnamed(kind: str, found: Sequence[str]) -> tuple[list[str], list[str]]:
    """What of *found* has no name, and which patterns of this kind were not met."""
    patterns = [pattern for named in DIFFERENT if named.kind == kind for pattern in named.lines]
    strange = [line for line in found if not any(fnmatchcase(line, pattern) for pattern in patterns)]
    return strange, [pattern for pattern in patterns if not any(fnmatchcase(line, pattern) for line in found)]
