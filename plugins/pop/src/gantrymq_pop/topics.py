"""Names that pop consumption makes: of retry topics, of the revive log and its reader.

    %RETRY%<group>_<topic>     first form of a group's retry topic for one topic
    %RETRY%<group>+<topic>     second form (``enableRetryTopicV2``)
    rmq_sys_REVIVE_LOG_<cluster>

Source: apache/rocketmq common/.../KeyBuilder.java, PopAckConstants.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.model.names import RETRY_PREFIX, SYSTEM_GROUP_PREFIX, pop_retry_topics

__all__ = [
    "KNOWN_GROUP",
    "NORMAL",
    "REVIVE_GROUP",
    "kind_of",
    "producer_topic",
    "real_topic",
    "retry_topic",
    "revive_topic",
]

REVIVE_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_GROUP"
KNOWN_GROUP: Final = SYSTEM_GROUP_PREFIX + "REVIVE_KNOWN"  # our own, see `revive_log`
NORMAL: Final = "0"  # kinds of topics as handles and answers spell them
_RETRY_V1: Final = "1"
_RETRY_V2: Final = "2"


def revive_topic(cluster: str) -> str:
    """Where a cluster's brokers log what they handed out and what was acknowledged."""
    return f"rmq_sys_REVIVE_LOG_{cluster}"


def retry_topic(topic: str, group: str, *, second_form: bool) -> str:
    """Where a group's messages of *topic* return when nobody acknowledged them."""
    return pop_retry_topics(group, topic)[second_form]


def kind_of(topic: str) -> str:
    """``0`` for a topic of producers, ``1`` and ``2`` for the forms of a retry topic."""
    if not topic.startswith(RETRY_PREFIX):
        return NORMAL
    return _RETRY_V2 if "+" in topic else _RETRY_V1


def real_topic(topic: str, group: str, kind: str) -> str | None:
    """The topic that *kind* means for one of producers; None for a kind that is none."""
    if kind == NORMAL:
        return topic
    return retry_topic(topic, group, second_form=kind == _RETRY_V2) if kind in (_RETRY_V1, _RETRY_V2) else None


def producer_topic(topic: str, group: str) -> str:
    """The topic of producers that a retry topic of *group* is for; any other topic as it is."""
    for mark in "+_":
        prefix = f"{RETRY_PREFIX}{group}{mark}"
        if topic.startswith(prefix):
            return topic[len(prefix) :]
    return topic
