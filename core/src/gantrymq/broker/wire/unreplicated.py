"""The state of replication of a master without slaves: 907, 908. The plugin `replication` has the real one for 907.

Source: apache/rocketmq store/.../ha/DefaultHAService.java (getRuntimeInfo).
"""

from __future__ import annotations

from gantrymq.broker.parts import Parts
from gantrymq.broker.wire.responses import ok, with_json
from gantrymq.model.access import Action
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.admin import ResetMasterFlushOffsetRequest
from gantrymq.remoting.serving import serves


class UnreplicatedRequests:
    """Handler for the state of replication."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store

    @serves(RequestCode.GET_BROKER_HA_STATUS, action=Action.GET)
    def replication(self, asked: Command, connection: Connection) -> Command:
        """907: return the state of a master without slaves, with the end of its log."""
        client = {
            "lastReadTimestamp": 0,
            "lastWriteTimestamp": 0,
            "masterFlushOffset": 0,
            "maxOffset": 0,
            "transferredByteInSecond": 0,
        }
        body = {
            "haClientRuntimeInfo": client,
            "haConnectionInfo": [],
            "inSyncSlaveNums": 0,
            "master": True,
            "masterCommitLogMaxOffset": self._store.state().max_log_offset,
        }
        return with_json(asked, body)

    @serves(RequestCode.RESET_MASTER_FLUSH_OFFSET, action=Action.UPDATE)
    def reset_master_flush_offset(self, asked: Command, connection: Connection) -> Command:
        """908: succeed without effect, because only slaves have this offset."""
        ResetMasterFlushOffsetRequest.from_ext(asked.ext)
        return ok(asked)
