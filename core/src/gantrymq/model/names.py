"""Names: prefixes, reserved topics and groups, and what a legal name is.

Source: apache/rocketmq common/.../topic/TopicValidator.java, MixAll.java, client Validators.java.
"""

from __future__ import annotations

import re

from gantrymq.errors import InvalidParameter

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

DEFAULT_TOPIC = "TBW102"  # topics are created after its likeness
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECK_MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"
BENCHMARK_TOPIC = "BenchmarkTest"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TIMER_TOPIC = "rmq_sys_wheel_timer"

SYSTEM_TOPICS = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
        "CHECKPOINT_TOPIC",
    }
)
SYSTEM_GROUPS = (  # those that every broker has
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
NOT_SENDABLE = frozenset(
    {SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC, SELF_TEST_TOPIC, OFFSET_MOVED_TOPIC}
)

MAX_TOPIC_CHARS = 127
MAX_RETRY_TOPIC_CHARS = 255
MAX_GROUP_CHARS = 120

_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+\Z")


def is_system_topic(topic: str) -> bool:
    """Whether *topic* belongs to the broker itself."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Whether *group* belongs to the broker itself."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(topic: str) -> None:
    """Refuse a topic name RocketMQ would refuse.

    Raises:
        InvalidParameter: no text, blank, too long or with a character outside ``[%|a-zA-Z0-9_-]``.
    """
    _check_type(topic, "topic")
    limit = MAX_RETRY_TOPIC_CHARS if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_CHARS
    _check(topic, "topic", limit)


def check_group(group: str) -> None:
    """Refuse a group name RocketMQ would refuse.

    Raises:
        InvalidParameter: no text, blank, too long or with a character outside ``[%|a-zA-Z0-9_-]``.
    """
    _check_type(group, "group")
    _check(group, "group", MAX_GROUP_CHARS)


def retry_topic(group: str) -> str:
    """The topic that a group's failed messages return through."""
    return RETRY_PREFIX + group


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Where messages of *topic* that *group* popped and did not acknowledge return: the first form, and the second."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def dead_letter_topic(group: str) -> str:
    """The topic that keeps the messages a group failed too often."""
    return DLQ_PREFIX + group


def _check_type(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise InvalidParameter(f"the {what} name is {repr(name)[:100]}; expected a text")


def _check(name: str, what: str, limit: int) -> None:
    if not name.strip():
        raise InvalidParameter(f"the {what} name is blank; use 1 to {limit} characters of letters, digits, _ - % |")
    if len(name) > limit:
        raise InvalidParameter(
            f"the {what} name {name[:40]!r}... has {len(name)} characters, the longest allowed is {limit}"
        )
    if not _LEGAL.match(name):
        raise InvalidParameter(f"the {what} name {name!r} has a character outside letters, digits, _ - % |")
