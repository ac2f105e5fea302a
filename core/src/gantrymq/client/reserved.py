"""Names of properties reserved by RocketMQ: set by clients and brokers, not by applications.

Messages have fields for KEYS, TAGS, WAIT and the delays. The other properties record the history of one message
(origin, delay, retries) and would be wrong on another one. A sharding key (__SHARDINGKEY) belongs to the application.

Source: apache/rocketmq common/.../message/MessageConst.java (STRING_HASH_SET, and properties that brokers add).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["RESERVED", "split_properties"]

_NAMES: Final = """
    TRACE_ON MSG_REGION KEYS TAGS WAIT DELAY RETRY_TOPIC REAL_TOPIC REAL_QID TRAN_MSG PGROUP MIN_OFFSET MAX_OFFSET
    BUYER_ID ORIGIN_MESSAGE_ID TRANSFER_FLAG CORRECTION_FLAG MQ2_FLAG RECONSUME_TIME UNIQ_KEY MAX_RECONSUME_TIMES
    CONSUME_START_TIME POP_CK POP_CK_OFFSET 1ST_POP_TIME TRAN_PREPARED_QUEUE_OFFSET DUP_INFO EXTEND_UNIQ_INFO
    INSTANCE_ID CORRELATION_ID REPLY_TO_CLIENT TTL ARRIVE_TIME PUSH_REPLY_TIME CLUSTER MSG_TYPE INNER_NUM INNER_BASE
    INNER_MULTI_DISPATCH INNER_MULTI_QUEUE_OFFSET TIMER_DELAY_MS TIMER_DELAY_SEC TIMER_DELIVER_MS TIMER_ENQUEUE_MS
    TIMER_DEQUEUE_MS TIMER_ROLL_TIMES TIMER_OUT_MS TIMER_DEL_UNIQKEY TIMER_DELAY_LEVEL __BORNHOST BORN_TIMESTAMP
    DLQ_ORIGIN_TOPIC DLQ_ORIGIN_MESSAGE_ID __CRC32# __transactionId__ CHECK_IMMUNITY_TIME_IN_SECONDS
    TRANSACTION_CHECK_TIMES PROPERTY_FORWARD_QUEUE_ID REDIRECT TRACE_CONTEXT
"""
RESERVED: Final = frozenset(_NAMES.split())


def split_properties(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Split *properties* into the application's and RocketMQ's."""
    own = {name: value for name, value in properties.items() if name not in RESERVED}
    return own, {name: value for name, value in properties.items() if name in RESERVED}
