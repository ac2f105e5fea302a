"""Results of pull requests.

Source: apache/rocketmq client/.../consumer/PullResult.java, PullStatus.java, client/.../impl/MQClientAPIImpl.java
(processPullResponse).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping

import attrs

from gantrymq.client.calls.decoding import decode_messages
from gantrymq.client.calls.rpc import refused, reply_header
from gantrymq.client.message import ReceivedMessage
from gantrymq.formats.compression import MAX_BODY_BYTES
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.pull import PullMessageResponse


class PullStatus(enum.Enum):
    """Status of a pull. Values are response codes."""

    FOUND = 0
    NO_NEW_MSG = 19  # the end of the queue
    NO_MATCHED_MSG = 20  # no message matches the expression: continue at next_offset
    OFFSET_ILLEGAL = 21  # outside the queue: continue at next_offset


_STATUS: Mapping[int, PullStatus] = {status.value: status for status in PullStatus}


@attrs.frozen
class PullResult:
    """Pulled messages, and the offset to continue at. Offsets are queue offsets."""

    status: PullStatus
    messages: tuple[ReceivedMessage, ...]  # empty unless FOUND
    next_offset: int
    min_offset: int  # first offset still in the queue
    max_offset: int  # offset that the next message will get
    suggested_broker_id: int = 0  # replica to pull from next


@attrs.frozen
class PulledRecords:
    """Pulled records as the broker sent them. Offsets are queue offsets."""

    status: PullStatus
    records: bytes  # back to back; empty unless FOUND
    offset_delta: int  # added to the queue offset in each record (static topics)
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int = 0


def read_pull_reply(
    reply: Command,
    address: str,
    broker_name: str,
    tags: Collection[str],
    first_offset: int = 0,
    unwrap: Callable[[str], str] | None = None,
    *,
    check_crcs: bool = False,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> PullResult:
    """Decode a broker's response into messages.

    Args:
        reply: response to request 11.
        address: of the broker, for errors.
        broker_name: of the broker.
        tags: tags to keep; empty for all. If no message is left, the status is NO_MATCHED_MSG.
        first_offset: requested offset.
        unwrap: see `decode_messages`.
        check_crcs: see `decode_messages`.
        max_body_bytes: see `decode_messages`.

    Raises:
        BrokerRefused: the response has an error code.
        RemoteProtocolError: a header field is missing.
    """
    found = read_pulled_records(reply, address)
    status = found.status
    messages: tuple[ReceivedMessage, ...] = ()
    if status is PullStatus.FOUND:
        read = decode_messages(
            found.records,
            broker_name,
            tags,
            found.offset_delta,
            first_offset,
            unwrap,
            check_crcs=check_crcs,
            max_body_bytes=max_body_bytes,
        )
        messages = tuple(read)
        if not messages:
            status = PullStatus.NO_MATCHED_MSG
    return PullResult(
        status, messages, found.next_offset, found.min_offset, found.max_offset, found.suggested_broker_id
    )


def read_pulled_records(reply: Command, address: str) -> PulledRecords:
    """Decode a broker's response without its records; the broker filtered them by tag hashes only."""
    status = _STATUS.get(reply.code)
    if status is None:
        raise refused(reply, address, RequestCode.PULL_MESSAGE)
    header = reply_header(PullMessageResponse, reply, address)
    return PulledRecords(
        status=status,
        records=reply.payload if status is PullStatus.FOUND else b"",
        offset_delta=header.offset_delta or 0,
        next_offset=header.next_begin_offset,
        min_offset=header.min_offset,
        max_offset=header.max_offset,
        suggested_broker_id=header.suggest_which_broker_id,
    )
