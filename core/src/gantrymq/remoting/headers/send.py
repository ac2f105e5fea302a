"""Headers of send requests and replies, and of the end of a transaction.

The fields of a send header are spelled as names (codes 10, 324) or letters (310, 320, 325); `SendMessageRequest` is for
both.

Source: apache/rocketmq remoting/.../protocol/header/SendMessageRequestHeader{,V2}.java, SendMessageResponseHeader.java,
ConsumerSendMsgBackRequestHeader.java, EndTransactionRequestHeader.java.
"""

from __future__ import annotations

from typing import Final

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.base import (
    Field,
    Header,
    Int32,
    Int64,
    RequestHeader,
    fields_of,
    header_of,
    named,
    read_fields,
    write_fields,
)

_SPELLED_IN_LETTERS: Final = (
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)


@header_of(RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE, *_SPELLED_IN_LETTERS)
class SendMessageRequest(Header):
    """Store a message; the body of the command is the body of the message (or the batch)."""

    producer_group: str
    topic: str
    default_topic: str  # template of a topic that does not exist yet, usually TBW102
    default_topic_queue_nums: Int32
    queue_id: Int32  # negative: chosen by the broker
    sys_flag: Int32
    born_timestamp: Int64  # ms
    flag: Int32  # set by the application
    properties: str | None = None  # property string, see `model.properties`
    reconsume_times: Int32 = 0
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    bname: str | None = None

    def to_ext_v2(self) -> dict[str, str]:
        """Return the fields with letters as names, in the order of a Java client."""
        return write_fields(self, _LETTERS)


@header_of(RequestCode.CONSUMER_SEND_MSG_BACK)
class ConsumerSendMsgBackRequest(RequestHeader):
    """Return a failed message to the broker for redelivery or to the dead letter queue of the group."""

    offset: Int64  # of its record in the log, bytes
    group: str
    delay_level: Int32  # 0: decided by the broker; negative: dead letter
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    failure: str | None = None  # ours: exception of the consumer; other brokers ignore it


_LETTERS: Final = tuple(
    field._replace(wire=letter) for field, letter in zip(fields_of(SendMessageRequest), "abcdefghijklmn", strict=True)
)


def send_fields(code: int) -> tuple[Field, ...]:
    """Return the fields of a send request, spelled as its code requires."""
    return _LETTERS if code in _SPELLED_IN_LETTERS else fields_of(SendMessageRequest)


def read_send_header(command: Command) -> SendMessageRequest:
    """Decode the header of a send request, spelled as its code requires.

    Raises:
        RequestRefused: as `Header.from_ext`.
    """
    return read_fields(SendMessageRequest, send_fields(command.code), command.ext, command.code)


@header_of(
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)
class SendMessageResponse(Header):
    """Position of the stored message. `responses.SendResponses` encodes the usual response faster."""

    msg_id: str  # offset id; several joined with commas for a batch
    queue_id: Int32
    queue_offset: Int64  # of the first message of a batch
    transaction_id: str | None = None  # the UNIQ_KEY; 4.9.7 omits it
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    msg_region: str | None = named("MSG_REGION", default=None)
    trace_on: bool | None = named("TRACE_ON", default=None)


@header_of(RequestCode.END_TRANSACTION)
class EndTransactionRequest(RequestHeader):
    """A producer's decision on a half message."""

    topic: str | None = None
    producer_group: str
    tran_state_table_offset: Int64  # queue offset of the half message
    commit_log_offset: Int64  # log offset of the half message
    commit_or_rollback: Int32  # 8 commit, 12 rollback, 0 unknown
    from_transaction_check: bool = False
    msg_id: str
    transaction_id: str | None = None
