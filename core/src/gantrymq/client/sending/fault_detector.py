"""Probes unreachable brokers until they answer again; the rules are in `latency_faults`.

Source: apache/rocketmq client/.../latency/LatencyFaultToleranceImpl.java (detectByOneRound),
client/.../impl/producer/DefaultMQProducerImpl.java (initTopicRoute, ServiceDetector).
"""

from __future__ import annotations

import asyncio
import logging

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.sending.latency_faults import DETECT_EVERY_S, DETECT_TIMEOUT_S, LatencyFaults
from gantrymq.errors import GantryError
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.offsets import GetMaxOffsetRequest

__all__ = ["FaultDetector"]

logger = logging.getLogger("gantrymq.client")


class FaultDetector:
    """Probes brokers for one producer, from its start to its close."""

    def __init__(self, instance: ClientInstance, faults: LatencyFaults) -> None:
        self._instance = instance
        self._faults = faults
        self._job = instance.job(self._run())

    def end(self) -> None:
        """Stop probing."""
        self._job.cancel()

    async def _run(self) -> None:
        clock = self._instance.world.clock
        while True:
            await clock.sleep(DETECT_EVERY_S)
            await asyncio.gather(*map(self._detect, self._faults.to_detect(clock.monotonic() * 1000)))

    async def _detect(self, broker: str) -> None:
        """Request the max offset of queue 0 of any topic of *broker*."""
        routes = self._instance.routes
        address, topic = routes.master(broker), routes.any_topic_of(broker)
        if address is None or topic is None:
            self._faults.forget(broker)
            return
        header = GetMaxOffsetRequest(topic=topic, queue_id=0)
        try:
            await self._instance.rpc.call(address, RequestCode.GET_MAX_OFFSET, header, timeout_s=DETECT_TIMEOUT_S)
        except GantryError as problem:
            logger.info("broker %s is not reachable yet: %s", broker, problem)
            return
        self._faults.detected(broker)
        logger.info("broker %s is reachable again", broker)
