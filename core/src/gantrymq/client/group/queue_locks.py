"""Locks of an orderly consumer on its queues, at their brokers.

Source: apache/rocketmq client/.../impl/consumer/RebalanceImpl.java (lock, lockAll, unlock).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from gantrymq.client.group.membership import GroupMember
from gantrymq.errors import GantryError
from gantrymq.loose_json import dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode

RENEW_S: Final = 20.0  # RocketMQ's REBALANCE_LOCK_INTERVAL
_TIMEOUT_S: Final = 1.0  # per request, as in RocketMQ


class QueueLocks:
    """Requests locks. Methods raise no errors; a broker that does not answer grants no lock."""

    def __init__(self, member: GroupMember) -> None:
        self._member = member

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Lock *queues*. Return the granted ones; their process queues are updated."""
        by_broker: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            by_broker[queue.broker_name].append(queue)
        granted: set[MessageQueue] = set()
        for broker_queues in by_broker.values():
            granted |= await self._lock_at(broker_queues)
        return granted

    async def renew(self) -> None:
        """Renew the locks of all process queues; a queue locked by another member meanwhile becomes unconfirmed."""
        member = self._member
        queues = [queue for queue, pq in member.process_queues.items() if not (pq.dropped or pq.unconfirmed)]
        await self.lock(queues)
        for queue in queues:
            pq = member.process_queues.get(queue)
            if pq is not None and pq.locked_s is None:
                pq.unconfirmed = True

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Release the locks, so that other members need not wait until they expire."""
        member = self._member
        for queue in queues:
            try:
                address = await self._address(queue)
                await member.instance.rpc.call(
                    address, RequestCode.UNLOCK_BATCH_MQ, body=self._body([queue]), timeout_s=_TIMEOUT_S
                )
            except GantryError as problem:
                member.instance.outages.failed(f"unlocking queues of {queue.topic} for {member.group}", problem)

    async def _lock_at(self, queues: list[MessageQueue]) -> set[MessageQueue]:
        """Lock queues of one broker. If it does not answer, granted locks stay until they expire."""
        member = self._member
        try:
            address = await self._address(queues[0])
            reply = await member.instance.rpc.call(
                address, RequestCode.LOCK_BATCH_MQ, body=self._body(queues), timeout_s=_TIMEOUT_S
            )
            found = loads(reply.payload)
            granted = {MessageQueue.from_json(each) for each in found.get("lockOKMQSet") or ()}
        except GantryError as problem:
            member.instance.outages.failed(f"locking queues of {queues[0].topic} for {member.group}", problem)
            return set()
        now = member.instance.world.clock.monotonic()
        for queue in queues:
            pq = member.process_queues.get(queue)
            if pq is not None:
                pq.locked_s = now if queue in granted else None
                member.deliveries.offer(pq)
        return granted

    async def _address(self, queue: MessageQueue) -> str:
        return await self._member.instance.routes.find_broker(queue.topic, queue.broker_name)

    def _body(self, queues: list[MessageQueue]) -> bytes:
        member = self._member
        return dumps(
            {
                "clientId": member.instance.client_id,
                "consumerGroup": member.group,
                "mqSet": [queue.to_json() for queue in queues],
                "onlyThisBroker": False,
            }
        )
