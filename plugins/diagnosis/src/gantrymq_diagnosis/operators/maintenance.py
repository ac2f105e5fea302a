"""Cleanup on demand, and the state of the control of cold reads, which GantryMQ does not have.

    306  queues without messages     remove queues without any message left in the log
    316  queues without a topic      remove them from the store
    329  expired log files           delete them in the background, at any hour
    2003 cold reads                  the response of a Java broker with coldDataFlowControlEnable=false: no throttling

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java, store/.../DefaultMessageStore.java
(cleanUnusedTopic), broker/.../coldctr/ColdDataCgCtrService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence

from gantrymq.plugin import loose_json
from gantrymq.plugin.headers import CleanRequest
from gantrymq.plugin.interfaces import Cleaning, CleanReport, require_capability
from gantrymq.plugin.model import Action, Role
from gantrymq.plugin.remoting import Command, Connection, RequestCode, request_name, response_to, serves
from gantrymq_diagnosis.operators.requests import BrokerRequests

log = logging.getLogger(__name__)

DROPS_TOGETHER = 16  # topics per group of deletions
_LOOKS_TOGETHER = 4  # groups without yielding

_COLD_BYTES_OF_GROUP = 3 * 1024 * 1024  # RocketMQ's default thresholds, without effect here
_COLD_BYTES_OF_ALL = 100 * 1024 * 1024  # the default of globalColdReadThreshold


class MaintenanceRequests(BrokerRequests):
    """Handlers for cleanup and cold reads."""

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
        broker = self._broker
        if broker.role.current is not Role.MASTER:
            return self._cleaned(asked, connection, "a replica removes no queues")
        count, slices = 0, self._slices(_LOOKS_TOGETHER)
        topics = list(dict.fromkeys(queue.topic for queue in broker.store.queues()))
        for start in range(0, len(topics), DROPS_TOGETHER):
            dropped = self._drop_unused(topics[start : start + DROPS_TOGETHER])
            await asyncio.gather(*dropped)  # drop no topic while a thread syncs, see `MessageStore.drop`
            count += len(dropped)
            await slices.item_done()
        return self._cleaned(asked, connection, f"removed the queues of {count} topics that do not exist")

    def _drop_unused(self, topics: Sequence[str]) -> list[Awaitable[None]]:
        """Drop those of *topics* that do not exist and do not belong to the broker; see `MessageStore.drop`."""
        known, store = self._broker.topics, self._broker.store
        return [store.drop(topic) for topic in topics if known.get(topic) is None and not known.is_own(topic)]

    @serves(RequestCode.DELETE_EXPIRED_COMMITLOG, action=Action.UPDATE)
    async def delete_expired_log(self, asked: Command, connection: Connection) -> Command:
        """329: delete expired log files now; respond before they are deleted, like Java."""
        report = await self._clean(Cleaning.EXPIRED_LOG)
        return self._cleaned(asked, connection, f"deleting {report.log_files} log files, {report.log_bytes} bytes")

    async def _clean(self, what: Cleaning) -> CleanReport:
        return await require_capability(self._broker.store_capabilities.cleaning, "cleanup on demand").clean(what)

    @staticmethod
    def _cleaned(asked: Command, connection: Connection, what: str) -> Command:
        """Log the result, and include it in the response if requested."""
        log.warning("%s of %s: %s", request_name(asked.code), connection.address, what)
        return response_to(asked, 0, what if CleanRequest.from_ext(asked.ext).report else None)

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
        return response_to(asked, 0, None, None, loose_json.dumps(body, sort=True))
