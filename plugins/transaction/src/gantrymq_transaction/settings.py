"""Settings of transaction checks; RocketMQ's keys and defaults.

Source: apache/rocketmq common/.../BrokerConfig.java.
"""

from __future__ import annotations

from gantrymq.plugin.settings import Setting

TIMEOUT = "transactionTimeOut"
CHECK_MAX = "transactionCheckMax"
OP_BYTES = "transactionOpMsgMaxSize"

SCHEMA: tuple[Setting, ...] = (
    Setting.number(
        TIMEOUT,
        6000,
        "Milliseconds from the send of an undecided message to its first check.",
        at_least=0,
        runtime=True,
    ),
    Setting.number(
        CHECK_MAX,
        15,
        "Number of checks before a message is moved to TRANS_CHECK_MAX_TIME_TOPIC.",
        at_least=1,
        runtime=True,
    ),
    Setting.number(
        OP_BYTES,
        4096,
        "Maximum bytes of one message of RMQ_SYS_TRANS_OP_HALF_TOPIC, which lists the half messages decided together.",
        at_least=32,
        runtime=True,
    ),
)
