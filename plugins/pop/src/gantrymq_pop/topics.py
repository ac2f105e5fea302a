"""Names of pop's retry topics, the revive log and its reader group.

    %RETRY%<group>_<topic>     first form of a group's retry topic for one topic
    %RETRY%<group>+<topic>     second form (``enableRetryTopicV2``)
    rmq_sys_REVIVE_LOG_<cluster>

Source: apache/rocketmq common/.../KeyBuilder.java, PopAckConstants.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.names import RETRY_PREFIX, SYSTEM_GROUP_PREFIX

REVIVE_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
KNOWN_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_KNOWN"  # our own, see `revive_log`


def revive_topic(cluster: str) -> str:
    """Return the revive topic of a cluster, with checkpoints and acknowledgements."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


def producer_topic(topic: str, group: str) -> str:
    """Return the normal topic of a retry topic of *group*; any other topic unchanged."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic
