"""Cleanup on demand, and the state of features that a single master without timers does not have.

    306  queues without messages     remove queues without any message left in the log
    316  queues without a topic      remove them from the store
    329  expired log files           delete them in the background, at any hour
    45   delay offsets               the empty table of a broker without delay levels
    907, 908  replication            the response of a Java master without slaves
    2003 cold reads                  the response of a Java broker with coldDataFlowControlEnable=false: no throttling

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java, store/.../DefaultMessageStore.java
(cleanUnusedTopic), store/.../ha/DefaultHAService.java (getRuntimeInfo), broker/.../coldctr/ColdDataCgCtrService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from gantrymq.broker.parts import Parts
from gantrymq.broker.store_features import require
from gantrymq.broker.wire.responses import ok, with_json
from gantrymq.interfaces import Cleaning, CleanReport
from gantrymq.model.access import Action
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.codes import RequestCode, request_name
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.admin import CleanRequest, ResetMasterFlushOffsetRequest
from gantrymq.remoting.serving import serves
from gantrymq.world.time_slices import TimeSlices

log = logging.getLogger(__name__)

DROPS_TOGETHER = 16  # topics per group of deletions
LOOKS_TOGETHER = 4  # groups without yielding

_COLD_BYTES_OF_GROUP = 3 * 1024 * 1024  # RocketMQ's default thresholds, without effect here
_COLD_BYTES_OF_ALL = 100 * 1024 * 1024  # the default of globalColdReadThreshold


class MaintenanceRequests:
    """Handlers for cleanup and cluster state."""

    def __init__(self, parts: Parts) -> None:
        self._clock = parts.world.clock
        self._store, self._capabilities = parts.store, parts.store_capabilities
        self._topics = parts.topics
        self._is_master = parts.roles.is_master

    @serves(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, action=Action.UPDATE)
    async def clean_expired_queues(self, asked: Command, connection: Connection) -> Command:
        """306: remove queues without any message left in the log, except for those of the broker's topics."""
        report = await self._clean(Cleaning.EXPIRED_QUEUES)
        return self._cleaned(asked, connection, f"removed {report.queues} queues whose messages have left the log")

    @serves(RequestCode.CLEAN_UNUSED_TOPIC, action=Action.UPDATE)
    async def clean_unused_topics(self, asked: Command, connection: Connection) -> Command:
        """316: remove the queues of topics that do not exist, except for those of the broker's topics.

        A replica removes nothing, because it may get messages of a new topic before the topic.
        """
        if not self._is_master():
            return self._cleaned(asked, connection, "a replica removes no queues")
        count, slices = 0, TimeSlices(self._clock, LOOKS_TOGETHER)
        topics = list(dict.fromkeys(queue.topic for queue in self._store.queues()))
        for start in range(0, len(topics), DROPS_TOGETHER):
            dropped = self._drop_unused(topics[start : start + DROPS_TOGETHER])
            await asyncio.gather(*dropped)  # drop no topic while a thread syncs, see `Deletions`
            count += len(dropped)
            await slices.item_done()
        return self._cleaned(asked, connection, f"removed the queues of {count} topics that do not exist")

    def _drop_unused(self, topics: Sequence[str]) -> list[Awaitable[None]]:
        """Drop those of *topics* that do not exist and do not belong to the broker; see `MessageStore.drop`."""
        return [
            self._store.drop(topic)
            for topic in topics
            if self._topics.get(topic) is None and not self._topics.is_own(topic)
        ]

    @serves(RequestCode.DELETE_EXPIRED_COMMITLOG, action=Action.UPDATE)
    async def delete_expired_log(self, asked: Command, connection: Connection) -> Command:
        """329: delete expired log files now; respond before they are deleted, like Java."""
        report = await self._clean(Cleaning.EXPIRED_LOG)
        return self._cleaned(asked, connection, f"deleting {report.log_files} log files, {report.log_bytes} bytes")

    async def _clean(self, what: Cleaning) -> CleanReport:
        return await require(self._capabilities.cleaning, "cleanup on demand").clean(what)

    @staticmethod
    def _cleaned(asked: Command, connection: Connection, what: str) -> Command:
        """Log the result, and include it in the response if requested."""
        log.warning("%s of %s: %s", request_name(asked.code), connection.address, what)
        return response_to(asked, 0, what if CleanRequest.from_ext(asked.ext).report else None)

    @serves(RequestCode.GET_ALL_DELAY_OFFSET, action=Action.GET)
    def delay_offsets(self, asked: Command, connection: Connection) -> Command:
        """45: return an empty table of delay levels."""
        return with_json(asked, {"dataVersion": DataVersion().to_json(), "offsetTable": {}})

    @serves(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO, action=Action.GET)
    def cold_reads(self, asked: Command, connection: Connection) -> Command:
        """2003: report no throttled cold reads; changing the configuration (2001, 2002) is refused."""
        body = {
            "cgColdReadThreshold": _COLD_BYTES_OF_GROUP,
            "configTable": {},
            "globalAcc": 0,
            "globalColdReadThreshold": _COLD_BYTES_OF_ALL,
            "runtimeTable": {},
        }
        return with_json(asked, body)

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
