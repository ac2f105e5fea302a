"""Pulls of one group, from the replica that a broker suggested last.

Source: apache/rocketmq client/.../impl/consumer/PullAPIWrapper.java.
"""

from __future__ import annotations

from gantrymq.client.instance import ClientInstance
from gantrymq.client.pull_result import PulledRecords, PullResult
from gantrymq.loose_json import dumps
from gantrymq.model.pull_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.pull import PullMessageRequest

__all__ = ["PULL_TIMEOUT_S", "GroupPulls"]

PULL_TIMEOUT_S = 10.0  # beyond the time that the broker may hold a pull
_MAX_BYTES = 0x7FFFFFFF
_MOST_ACCEPTED = 1024


class GroupPulls:
    """Sends pulls; what is in the replies is the caller's affair."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """For *group*, over the connections of *instance*."""
        self._instance = instance
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}  # broker id to ask next
        self._accepted: set[tuple[str, Subscription]] = set()  # as `check` notes them

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        wanted: Subscription,
        *,
        max_count: int = 32,
        suspend_ms: int = 0,
        commit: int = 0,
    ) -> tuple[Command, str]:
        """The reply and who gave it.

        Args:
            queue: whose messages.
            offset: queue offset of the first.
            wanted: subscription to its topic.
            max_count: messages, at most; the broker has a limit of its own.
            suspend_ms: how long the broker may hold the pull.
            commit: offset that the group has reached, for a master to keep; 0 to keep nothing.

        Raises:
            NoRoute: no replica of the queue's broker is known.
            BrokerRefused: the broker cannot read the expression.
            ConnectFailed, ConnectionLost, CallTimeout: there is no answer.
        """
        instance = self._instance
        broker_id = self._suggested.get(queue, 0)
        address = await instance.routes.find_broker(queue.topic, queue.broker_name, broker_id)
        await instance.registration.ensure_registered(address)
        if wanted.type != TAG:
            await self.check(address, wanted)
        flag = PULL_SUBSCRIPTION | (PULL_SUSPEND if suspend_ms > 0 else 0)
        if commit > 0 and address == instance.routes.master(queue.broker_name):
            flag |= PULL_COMMIT_OFFSET
        header = PullMessageRequest(
            consumer_group=self._group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=max_count,
            sys_flag=flag,
            commit_offset=commit,
            suspend_timeout_millis=suspend_ms,
            subscription=wanted.expression,
            sub_version=0,
            expression_type=wanted.type,
            max_msg_bytes=_MAX_BYTES,
            bname=queue.broker_name,
        )
        timeout_s = PULL_TIMEOUT_S + suspend_ms / 1000
        return await instance.rpc.exchange(address, RequestCode.PULL_MESSAGE, header, timeout_s=timeout_s), address

    def note(self, queue: MessageQueue, found: PullResult | PulledRecords) -> None:
        """Ask next whom the broker suggested."""
        self._suggested[queue] = found.suggested_broker_id

    async def check(self, address: str, wanted: Subscription) -> None:
        """Ask a broker once whether it can read an expression. Raises BrokerRefused with its reason."""
        key = (address, wanted)
        if key in self._accepted:
            return
        body = {"clientId": self._instance.client_id, "group": self._group, "subscriptionData": wanted.to_json()}
        await self._instance.rpc.call(address, RequestCode.CHECK_CLIENT_CONFIG, body=dumps(body))
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(key)
