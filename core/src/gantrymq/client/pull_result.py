"""What a pull returns.

Source: apache/rocketmq client/.../consumer/PullResult.java, PullStatus.java, client/.../impl/MQClientAPIImpl.java
(processPullResponse).
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Mapping

import attrs

from gantrymq.client.decoding import decode_messages
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.rpc import refused, reply_header
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.pull import PullMessageResponse

__all__ = ["PullResult", "PullStatus", "PulledRecords", "read_pull_reply", "read_pulled_records"]


class PullStatus(enum.Enum):
    """What a pull found. Values are response codes."""

    FOUND = 0
    NO_NEW_MSG = 19  # the end of the queue
    NO_MATCHED_MSG = 20  # messages, but none that the expression wants: go on at next_offset
    OFFSET_ILLEGAL = 21  # outside the queue: go on at next_offset


_STATUS: Mapping[int, PullStatus] = {status.value: status for status in PullStatus}


@attrs.frozen
class PullResult:
    """Messages, and where to go on; offsets are queue offsets."""

    status: PullStatus
    messages: tuple[ReceivedMessage, ...]  # empty unless FOUND
    next_offset: int
    min_offset: int  # the first one that the queue still has
    max_offset: int  # what its next message will get
    suggested_broker_id: int = 0  # which replica to ask next


@attrs.frozen
class PulledRecords:
    """The same with the records as the broker sent them; offsets are queue offsets."""

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
) -> PullResult:
    """Turn a broker's reply into a result.

    Args:
        reply: to request 11.
        address: of the broker, for errors.
        broker_name: of the broker.
        tags: texts wanted; empty for all. A reply of which no message is left is NO_MATCHED_MSG.
        first_offset: what was asked for.
        unwrap: as for `decode_messages`.
        check_crcs: as for `decode_messages`.

    Raises:
        BrokerRefused: the code is none of a pull that was served.
        RemoteProtocolError: a header field is missing.
    """
    found = read_pulled_records(reply, address)
    status = found.status
    messages: tuple[ReceivedMessage, ...] = ()
    if status is PullStatus.FOUND:
        read = decode_messages(
            found.records, broker_name, tags, found.offset_delta, first_offset, unwrap, check_crcs=check_crcs
        )
        messages = tuple(read)
        if not messages:
            status = PullStatus.NO_MATCHED_MSG
    return PullResult(
        status, messages, found.next_offset, found.min_offset, found.max_offset, found.suggested_broker_id
    )


def read_pulled_records(reply: Command, address: str) -> PulledRecords:
    """As `read_pull_reply`, but no record is looked at: the broker compared hashes of tags alone."""
    status = _STATUS.get(reply.code)
    if status is None:
        raise refused(reply, address)
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
