"""Locks that a member in orderly mode has on its queues, at their brokers.

Source: apache/rocketmq client/.../impl/consumer/RebalanceImpl.java (lock, lockAll, unlock).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from gantrymq.client.group.membership import Membership
from gantrymq.errors import GantryError
from gantrymq.loose_json import dumps, loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode

__all__ = ["RENEW_S", "QueueLocks"]

RENEW_S: Final = 20.0
_TIMEOUT_S: Final = 1.0


class QueueLocks:
    """Asks brokers; nothing here raises, a broker that gives no answer grants nothing."""

    def __init__(self, member: Membership) -> None:
        self._member = member

    async def lock(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Those of *queues* that are ours now; held ones are marked."""
        wanted: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            wanted[queue.broker_name].append(queue)
        granted: set[MessageQueue] = set()
        for broker_queues in wanted.values():
            granted |= await self._lock_at(broker_queues)
        return granted

    async def renew(self) -> None:
        """Ask again for all that are held; one that another member has locked meanwhile is cut off."""
        member = self._member
        asked = [queue for queue, held in member.held.items() if not (held.dropped or held.cut_off)]
        await self.lock(asked)
        for queue in asked:
            held = member.held.get(queue)
            if held is not None and held.locked_s is None:
                held.cut_off = True

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give queues up, so that others need not wait until the locks expire."""
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
        """Queues of one broker. Without an answer what is locked stays so until it expires."""
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
            held = member.held.get(queue)
            if held is not None:
                held.locked_s = now if queue in granted else None
                member.handing.offer(held)
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
