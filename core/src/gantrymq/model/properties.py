"""Message properties as text: ``name 0x01 value 0x02`` repeated.

Rules of Java's reader, followed here: a pair shorter than three characters is ignored, the first 0x01 separates name
and value, pairs with an empty name or value are ignored, the last of equal names wins. Writers end each pair with 0x02;
old ones omit the last separator.

Source: apache/rocketmq common/.../message/MessageDecoder.java (string2messageProperties, messageProperties2String),
MessageConst.java (names).
"""

from __future__ import annotations

from collections.abc import Mapping

from gantrymq import speedups

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
UNIQ_KEY = "UNIQ_KEY"
TRAN_MSG = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
CLUSTER = "CLUSTER"
MSG_TYPE = "MSG_TYPE"
REPLY_TYPE = "reply"  # of MSG_TYPE
POP_CK = "POP_CK"
INNER_NUM = "INNER_NUM"
INNER_BASE = "INNER_BASE"
RETRY_TOPIC = "RETRY_TOPIC"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_OUT_MS = "TIMER_OUT_MS"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
CONSUME_FAILURE = "CONSUME_FAILURE"  # ours: exception of the consumer, of a dead letter
LITE_TOPIC = "__LITE_TOPIC"
INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH"
INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET"
PRIORITY = "_SYS_MSG_PRIORITY_"
SHARDING_KEY = "__SHARDINGKEY"  # also the message group of gRPC clients

MAX_BYTES = 32767  # a record has a signed 16-bit length field for the text
LATER_BYTES = 1900  # of these, reserved when a message is accepted
"""Reserved for properties added later by transaction checks, timers, retries, consumers' copies, pop, inner batches and
Java brokers on the same store. According to ``tests/core/model/test_properties_room.py`` these are at most 1,513 bytes,
plus `LIGHT_QUEUE_BYTES` for each light queue. The rest is for interceptors.
"""
MAX_SENT_BYTES = MAX_BYTES - LATER_BYTES  # of a sent message, with what the broker adds at once
LIGHT_QUEUE_BYTES = 20

_PAIR = b"\x02"


def _decode(text: bytes | bytearray | memoryview) -> dict[str, str]:
    """Decode stored properties (UTF-8; invalid bytes become U+FFFD)."""
    return decode_text(bytes(text).decode("utf-8", "replace"))


decode = _decode if speedups.compiled is None else speedups.compiled.decode_properties


def decode_text(text: str) -> dict[str, str]:
    """Decode the property string of a send header."""
    found: dict[str, str] = {}
    for piece in text.split("\x02"):
        if len(piece) >= 3:
            name, mark, value = piece.partition("\x01")
            if mark and name and value:
                found[name] = value
    return found


def encode_text(properties: Mapping[str, str]) -> str:
    """Encode properties in their order, each pair with a final separator."""
    return "".join([f"{name}\x01{value}\x02" for name, value in properties.items()])


def encode(properties: Mapping[str, str]) -> bytes:
    """Encode properties as UTF-8. The caller checks the length against MAX_BYTES."""
    return encode_text(properties).encode("utf-8", "surrogatepass")


def on_one_line(text: str) -> str:
    """Return *text* as the value of a property: a space for each character that is not printable, such as 0x01."""
    return "".join(each if each.isprintable() else " " for each in text)
