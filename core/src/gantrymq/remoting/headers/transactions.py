"""Header of the end of a transaction.

Source: apache/rocketmq remoting/.../protocol/header/EndTransactionRequestHeader.java.
"""

from __future__ import annotations

from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.base import Int32, Int64, RequestHeader, header_of

__all__ = ["EndTransactionRequest"]


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
