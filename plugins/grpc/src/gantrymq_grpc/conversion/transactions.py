"""Ids of transactions, which carry the offsets of the half message.

So any process of a broker, also after a restart, finds the half message that a client commits or rolls back: nothing
is kept in memory for it. SDKs pass the id on as it is.

    LLLLLLLLLLLLLLLLQQQQQQQQQQQQQQQQ    log offset and queue offset of the half message, 16 hexadecimal digits each
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import Code

_FORM: Final = re.compile(r"[0-9A-F]{32}")


class HalfMessage(NamedTuple):
    """Where a half message is stored."""

    log_offset: int
    queue_offset: int


def transaction_id(half: HalfMessage) -> str:
    """Return the id of the transaction of a half message."""
    return f"{half.log_offset:016X}{half.queue_offset:016X}"


def half_message(text: str) -> HalfMessage:
    """Return the half message of a transaction id.

    Raises:
        Refused: the text is not an id of this server.
    """
    if not text.strip():
        raise Refused(Code.INVALID_TRANSACTION_ID, "transaction id cannot be empty")
    if not _FORM.fullmatch(text):
        raise Refused(
            Code.INVALID_TRANSACTION_ID,
            f"the transaction id {text[:80]!r} is not one of this server; pass on the transaction_id of the answer to "
            "the send, or that of the check",
        )
    return HalfMessage(int(text[:16], 16), int(text[16:], 16))
