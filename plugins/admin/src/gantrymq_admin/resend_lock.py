"""A lock of the dead letters of a group for one run that sends them again.

Two runs at the same time would both send a letter, because neither finds the copy that the other is sending. So each
run locks the queues of dead letters at their brokers, by the request with which ordered consumers lock queues: it
works for all consoles and command lines, and brokers of RocketMQ serve it. The group of the lock is one of its own,
because brokers take a group with locked queues for one that consumes in order. A lock expires 60 seconds after its
last renewal, so that a run that was killed stops others no longer than that.

Source: apache/rocketmq broker/.../client/rebalance/RebalanceLockManager.java.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

from gantrymq.client import Admin
from gantrymq.errors import BrokerRefused, ClientError
from gantrymq.plugin import names
from gantrymq.plugin.loose_json import dumps, loads
from gantrymq.plugin.model import MessageQueue
from gantrymq.plugin.remoting import RequestCode
from gantrymq.plugin.world import Clock

LOCK_GROUP: Final = "gantrymq-dlq-resend"
RENEW_S: Final = 15.0


class ResendBusy(ClientError):
    """Another run sends dead letters of the group, or one ended less than a minute ago without releasing them."""


class ResendLock:
    """The lock of one run."""

    def __init__(self, admin: Admin, clock: Clock, group: str) -> None:
        """Prepare it without a request."""
        self._admin, self._clock, self._group = admin, clock, group
        self._owner = f"{LOCK_GROUP}@{secrets.token_hex(8)}"
        self._held: dict[MessageQueue, str] = {}  # queue to address
        self._renewed_s = 0.0

    async def take(self, queues: Sequence[MessageQueue]) -> None:
        """Lock *queues*. Brokers that have no master now, or refuse the request (lack of permission), are left out.

        Raises:
            ResendBusy: another run has one of them.
            ClientError: a broker does not answer.
        """
        if not queues:
            return
        route = await self._admin.route(names.dead_letter_topic(self._group))
        try:
            for queue in queues:
                broker = route.broker(queue.broker_name)
                if broker is not None and broker.master is not None:
                    await self._lock(queue, broker.master)
        except BaseException:
            await self.release()
            raise
        self._renewed_s = self._clock.monotonic()

    async def renew(self) -> None:
        """Renew the lock if it is time. Raises as `take`."""
        if self._held and self._clock.monotonic() - self._renewed_s >= RENEW_S:
            for queue, address in tuple(self._held.items()):
                await self._lock(queue, address)
            self._renewed_s = self._clock.monotonic()

    async def release(self) -> None:
        """Release it; at a broker that does not answer it expires."""
        held, self._held = self._held, {}
        for queue, address in held.items():
            try:
                await self._admin.request(address, RequestCode.UNLOCK_BATCH_MQ, body=self._body(queue))
            except ClientError:
                continue

    async def _lock(self, queue: MessageQueue, address: str) -> None:
        try:
            reply = await self._admin.request(address, RequestCode.LOCK_BATCH_MQ, body=self._body(queue))
        except BrokerRefused:
            return
        granted = [MessageQueue.from_json(each) for each in loads(reply.payload).get("lockOKMQSet") or ()]
        if queue not in granted:
            raise ResendBusy(
                f"dead letters of group {self._group} at {queue.broker_name} are being sent again by another command "
                "or console, or by one that was killed less than a minute ago; try again when it has ended"
            )
        self._held[queue] = address

    def _body(self, queue: MessageQueue) -> bytes:
        return dumps(
            {
                "clientId": self._owner,
                "consumerGroup": LOCK_GROUP,
                "mqSet": [queue.to_json()],
                "onlyThisBroker": False,
            }
        )
