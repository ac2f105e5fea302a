"""Names of topics and groups: prefixes, reserved names and validation.

Source: apache/rocketmq common/.../topic/TopicValidator.java, MixAll.java, client Validators.java.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gantrymq.errors import NameIllegal

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
LMQ_PREFIX = "%LMQ%"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"

_MOST_TYPOS = 3  # added or missing characters of a similar name
_MOST_COMPARED = 1000
_LEAST_SIMILARITY = 0.75

DEFAULT_TOPIC = "TBW102"  # template of automatically created topics
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
SYSTEM_GROUPS = (  # created by every broker
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
    """Return whether *topic* is a system topic."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return whether *group* is a system group."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(topic: str) -> None:
    """Check a topic name with RocketMQ's rules.

    Raises:
        NameIllegal: the name is not a string, blank, too long or has a character outside ``[%|a-zA-Z0-9_-]``.
    """
    _check_type(topic, "topic")
    limit = MAX_RETRY_TOPIC_CHARS if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else MAX_TOPIC_CHARS
    _check(topic, "topic", limit)


def check_group(group: str) -> None:
    """Check a group name with RocketMQ's rules.

    Raises:
        NameIllegal: the name is not a string, blank, too long or has a character outside ``[%|a-zA-Z0-9_-]``.
    """
    _check_type(group, "group")
    _check(group, "group", MAX_GROUP_CHARS)


def retry_topic(group: str) -> str:
    """Return the retry topic of *group*."""
    return RETRY_PREFIX + group


def pop_retry_topics(group: str, topic: str) -> tuple[str, str]:
    """Return the retry topics of pop consumers of *topic* in *group*: old name (V1) and new name (V2)."""
    return f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def dead_letter_topic(group: str) -> str:
    """Return the dead letter topic of *group*."""
    return DLQ_PREFIX + group


def _check_type(name: object, what: str) -> None:
    if not isinstance(name, str):
        raise NameIllegal(f"the {what} name is {repr(name)[:100]}; expected a text")


def _check(name: str, what: str, limit: int) -> None:
    if not name.strip():
        raise NameIllegal(f"the {what} name is blank; use 1 to {limit} characters of letters, digits, _ - % |")
    if len(name) > limit:
        raise NameIllegal(
            f"the {what} name {name[:40]!r}... has {len(name)} characters, the longest allowed is {limit}"
        )
    if not _LEGAL.match(name):
        raise NameIllegal(f"the {what} name {name!r} has a character outside letters, digits, _ - % |")


def similar_name(name: str, names: Iterable[str]) -> str:
    """Return the most similar of *names* to a misspelt one; empty if none is similar. Upper and lower case are equal.

    To be fast with 100,000 names, only those that begin or end with the same two characters are compared.
    """
    wanted = name.lower()
    near: dict[str, str] = {}
    for each in names:
        other = each.lower()
        if abs(len(other) - len(wanted)) > _MOST_TYPOS or each == name:
            continue
        if other[:2] == wanted[:2] or other[-2:] == wanted[-2:]:
            near.setdefault(other, each)
            if len(near) == _MOST_COMPARED:
                break
    from difflib import get_close_matches  # only for an error

    found = get_close_matches(wanted, near, 1, _LEAST_SIMILARITY)
    return near[found[0]] if found else ""
