"""Settings of pop consumption, under RocketMQ's key names and with its defaults.

Those of RocketMQ that have no effect here (``enablePopBufferMerge``, ``enablePopLog``, ``reviveScanTime`` and others)
are taken and listed at start, like every such key: what they tune does not exist here.

Source: apache/rocketmq common/.../BrokerConfig.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.config import Setting, Value
from gantrymq_pop.receipt_handle import ORDERED
from gantrymq_pop.request_modes import POP, PULL

__all__ = ["SCHEMA"]


def _no_key_value_store(value: Value) -> str | None:
    if value:
        return "pop state in RocksDB is not built; without it the state lies in the revive log, as RocketMQ's default"
    return None


SCHEMA: Final = (
    Setting("enableRetryTopicV2", "flag", False, "Retry topics of pop are %RETRY%group+topic, not group_topic."),
    Setting(
        "retrieveMessageFromPopRetryTopicV1",
        "flag",
        True,
        "With enableRetryTopicV2, retry topics of the first form are read too.",
    ),
    Setting(
        "popFromRetryProbability",
        "number",
        20,
        "Of a hundred pops, so many read the retry topic before the topic itself.",
        at_least=0,
        at_most=100,
        runtime=True,
    ),
    Setting(
        "popResponseReturnActualRetryTopic",
        "flag",
        False,
        "Retried messages come under the name of their retry topic, not of the topic that was asked for.",
        runtime=True,
    ),
    Setting(
        "initPopOffsetByCheckMsgInMem",
        "flag",
        True,
        "A group that starts at the end gets all messages where the queue's first one is in memory.",
        runtime=True,
    ),
    Setting(
        "popPollingMapSize",
        "number",
        100_000,
        "As many queues of groups may have pops that wait; further ones are told that polling is full.",
        at_least=1,
        runtime=True,
    ),
    Setting(
        "popPollingSize", "number", 1024, "As many pops may wait for one queue of one group.", at_least=1, runtime=True
    ),
    Setting("maxPopPollingSize", "number", 100_000, "As many pops may wait in all.", at_least=1, runtime=True),
    Setting(
        "popCkMaxBufferSize",
        "number",
        200_000,
        "Of so many pops memory knows when they are due; of further ones the revive log alone, until there is room.",
        at_least=1,
        runtime=True,
    ),
    Setting(
        "reviveQueueNum",
        "number",
        8,
        "Queues of the revive log that pops are written to; with fewer than before, the others are read as long as "
        "they are there.",
        at_least=1,
        at_most=ORDERED - 1,
    ),
    Setting(
        "defaultMessageRequestMode", "text", PULL, "How groups read for which nothing was set.", choices=(PULL, POP)
    ),
    Setting(
        "defaultPopShareQueueNum",
        "number",
        -1,
        "popShareQueueNum of groups for which nothing was set; -1 or 0: every member reads all queues.",
        at_least=-1,
        runtime=True,
    ),
    Setting(
        "serverLoadBalancerEnable",
        "flag",
        True,
        "Off: members that ask for their queues are given all of them.",
        runtime=True,
    ),
    Setting(
        "popConsumerKVServiceEnable",
        "flag",
        False,
        "RocketMQ's pop state in RocksDB; not built.",
        not_built=_no_key_value_store,
    ),
)
