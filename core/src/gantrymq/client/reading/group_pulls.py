"""Pull requests of one group, to the replica that the broker suggested last.

Source: apache/rocketmq client/.../impl/consumer/PullAPIWrapper.java.
"""

from __future__ import annotations

from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.reading.pull_result import PulledRecords, PullResult
from gantrymq.loose_json import dumps
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.model.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.pull import PullMessageRequest

PULL_TIMEOUT_S = 10.0  # in addition to the time that the broker may hold a pull
_MAX_BYTES = 0x7FFFFFFF
_MOST_ACCEPTED = 1024


class GroupPulls:
    """Sends pull requests; the caller decodes the responses."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """For *group*, over the connections of *instance*."""
        self._instance = instance
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}  # broker id to ask next
        self._accepted: set[tuple[str, Subscription]] = set()  # broker address and expression, set by `check`

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
        """Send a pull request; return the response and the broker's address.

        Args:
            queue: queue to pull from.
            offset: queue offset of the first message.
            wanted: subscription to its topic.
            max_count: maximum number of messages; the broker has its own limit.
            suspend_ms: how long the broker may hold the pull.
            commit: offset to commit for the group, if the broker is a master; 0 for none.

        Raises:
            NoRoute: no replica of the queue's broker is known.
            BrokerRefused: the broker cannot parse the expression.
            ConnectFailed, ConnectionLost, CallTimeout: no response.
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
        """Remember the replica that the broker suggested for the next pull."""
        self._suggested[queue] = found.suggested_broker_id

    async def check(self, address: str, wanted: Subscription) -> None:
        """Ask a broker, once per expression, whether it can parse it. Raises BrokerRefused with its reason."""
        key = (address, wanted)
        if key in self._accepted:
            return
        body = {"clientId": self._instance.client_id, "group": self._group, "subscriptionData": wanted.to_json()}
        await self._instance.rpc.call(address, RequestCode.CHECK_CLIENT_CONFIG, body=dumps(body))
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(key)
