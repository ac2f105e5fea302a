"""Names of pop's retry topics, the revive log and its reader group.

    %RETRY%<group>_<topic>     first form of a group's retry topic for one topic
    %RETRY%<group>+<topic>     second form (``enableRetryTopicV2``)
    rmq_sys_REVIVE_LOG_<cluster>

Source: apache/rocketmq common/.../KeyBuilder.java, PopAckConstants.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.names import RETRY_PREFIX, SYSTEM_GROUP_PREFIX, pop_retry_topics

REVIVE_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
KNOWN_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_KNOWN"  # our own, see `revive_log`
_NORMAL: Final = "0"  # kinds of topics in receipt handles and responses
_RETRY_V1: Final = "1"
_RETRY_V2: Final = "2"


def revive_topic(cluster: str) -> str:
    """Return the revive topic of a cluster, with checkpoints and acknowledgements."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


def retry_topic(topic: str, group: str, *, second_form: bool) -> str:
    """Return the retry topic for unacknowledged messages of *topic* and *group*."""
    return pop_retry_topics(group, topic)[second_form]


def kind_of(topic: str) -> str:
    """Return ``0`` for a normal topic, ``1`` or ``2`` for the two forms of a retry topic."""
    if not topic.startswith(RETRY_PREFIX):
        return _NORMAL
    return _RETRY_V2 if "+" in topic else _RETRY_V1


def real_topic(topic: str, group: str, kind: str) -> str | None:
    """Return the topic of *kind* for the normal topic *topic*; None for an unknown kind."""
    if kind == _NORMAL:
        return topic
    return retry_topic(topic, group, second_form=kind == _RETRY_V2) if kind in (_RETRY_V1, _RETRY_V2) else None


def producer_topic(topic: str, group: str) -> str:
    """Return the normal topic of a retry topic of *group*; any other topic unchanged."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic
