"""Settings of pop consumption, under RocketMQ's key names and with its defaults.

RocketMQ's keys without effect here (``enablePopBufferMerge``, ``enablePopLog``, ``reviveScanTime`` and others) are
accepted and listed at start, like all such keys.

Source: apache/rocketmq common/.../BrokerConfig.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.plugin.model import POP_ORDER_REVIVE_QUEUE
from gantrymq.plugin.settings import Setting, Value
from gantrymq_pop.assignment import POP, PULL


def _no_key_value_store(value: Value) -> str | None:
    if value:
        return "pop state in RocksDB is not built; the state is in the revive log, as by default in RocketMQ"
    return None


SCHEMA: Final = (
    Setting.flag("enableRetryTopicV2", False, "Retry topics of pop are %RETRY%group+topic, not group_topic."),
    Setting.flag(
        "retrieveMessageFromPopRetryTopicV1",
        True,
        "With enableRetryTopicV2, retry topics of the first form are read too.",
    ),
    Setting.number(
        "popFromRetryProbability",
        20,
        "Percentage of pops that read the retry topic before the topic itself.",
        at_least=0,
        at_most=100,
        runtime=True,
    ),
    Setting.number(
        "popFromRetryProbabilityForPriority",
        0,
        "Percentage of pops of a PRIORITY topic that read the retry topic before the topic itself.",
        at_least=0,
        at_most=100,
        runtime=True,
    ),
    Setting.flag(
        "priorityOrderAsc",
        True,
        "In a PRIORITY topic, queues with high ids are popped first; if false, those with low ids.",
        runtime=True,
    ),
    Setting.flag(
        "popResponseReturnActualRetryTopic",
        False,
        "Return retried messages under the name of their retry topic instead of the requested topic.",
        runtime=True,
    ),
    Setting.flag(
        "initPopOffsetByCheckMsgInMem",
        True,
        "A group that starts at the end gets all messages if the queue's first message is in memory.",
        runtime=True,
    ),
    Setting.number(
        "popPollingMapSize",
        100_000,
        "Maximum number of queues of groups with waiting pops; further pops are answered that polling is full.",
        at_least=1,
        runtime=True,
    ),
    Setting.number("popPollingSize", 1024, "Maximum of waiting pops per queue and group.", at_least=1, runtime=True),
    Setting.number("maxPopPollingSize", 100_000, "Maximum of waiting pops in total.", at_least=1, runtime=True),
    Setting.number(
        "popCkMaxBufferSize",
        200_000,
        "Maximum number of pending checkpoints in memory; further ones are only in the revive log until there is room.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        "reviveQueueNum",
        8,
        "Number of queues of the revive log to write to; if it is lowered, the other queues are still read while they "
        "exist.",
        at_least=1,
        at_most=POP_ORDER_REVIVE_QUEUE - 1,
    ),
    Setting.text(
        "defaultMessageRequestMode", PULL, "Request mode of groups without a mode of their own.", choices=(PULL, POP)
    ),
    Setting.number(
        "defaultPopShareQueueNum",
        -1,
        "popShareQueueNum of groups without a mode of their own; -1 or 0: every member pops all queues.",
        at_least=-1,
        runtime=True,
    ),
    Setting.flag(
        "serverLoadBalancerEnable",
        True,
        "If false, every member that requests its queues gets all of them.",
        runtime=True,
    ),
    Setting.flag(
        "popConsumerKVServiceEnable",
        False,
        "RocketMQ's pop state in RocksDB; not built.",
        not_built=_no_key_value_store,
    ),
)
