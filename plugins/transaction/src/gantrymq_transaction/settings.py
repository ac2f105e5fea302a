"""When undecided messages are asked for, and how often; RocketMQ's keys and defaults.

Source: apache/rocketmq common/.../BrokerConfig.java.
"""

from __future__ import annotations

from gantrymq.config import Setting

__all__ = ["CHECK_MAX", "OP_BYTES", "SCHEMA", "TIMEOUT"]

TIMEOUT = "transactionTimeOut"
CHECK_MAX = "transactionCheckMax"
OP_BYTES = "transactionOpMsgMaxSize"

SCHEMA: tuple[Setting, ...] = (
    Setting(
        TIMEOUT,
        "number",
        6000,
        "Milliseconds from its sending until a producer is asked about an undecided message for the first time.",
        at_least=0,
        runtime=True,
    ),
    Setting(
        CHECK_MAX,
        "number",
        15,
        "How often producers are asked about a message before it goes to TRANS_CHECK_MAX_TIME_TOPIC.",
        at_least=1,
        runtime=True,
    ),
    Setting(
        OP_BYTES,
        "number",
        4096,
        "Bytes of one message of RMQ_SYS_TRANS_OP_HALF_TOPIC, which names what was decided together.",
        at_least=32,
        runtime=True,
    ),
)
