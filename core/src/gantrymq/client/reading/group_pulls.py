"""Pull requests of one group, to the replica that the broker suggested last, or to another one while that is down.

A broker suggests a slave for old messages, and its master for recent ones. A replica that did not answer is avoided for
`AVOIDED_S` if the route has another one, and the route is fetched again. The connection of one that does not answer a
pull in time is closed, because it is frozen or its machine is gone: then the group's other requests go elsewhere, too,
until it answers again. RocketMQ's client instead repeats its pulls
at an unreachable master until the route changes, which it fetches every 30 s.

At the end of a queue a slave answers PULL_RETRY_IMMEDIATELY, to send the client to the master. While there is none,
RocketMQ's client repeats the pull without a pause.

Source: apache/rocketmq client/.../impl/consumer/PullAPIWrapper.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from gantrymq.client.calls.credentials import AccessDenied
from gantrymq.client.calls.outages import UNREACHABLE
from gantrymq.client.connection.instance import ClientInstance
from gantrymq.client.errors import FilterRefused
from gantrymq.client.reading.pull_result import PulledRecords, PullResult
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError
from gantrymq.loose_json import dumps
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import TAG, Subscription
from gantrymq.model.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.remoting.headers.pull import PullMessageRequest

logger = logging.getLogger("gantrymq.client")

PULL_TIMEOUT_S = 10.0  # in addition to the time that the broker may hold a pull
AVOIDED_S = 10.0  # a replica that did not answer, or a slave that refuses readers
SLAVE_PAUSE_S = 0.2  # after a slave had no messages
ROUTE_TIMEOUT_S = 3.0
_MAX_BYTES = 0x7FFFFFFF
_MOST_ACCEPTED = 1024
_NOT_NOW = frozenset(
    {
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.GO_AWAY,
    }
)


class FilterChecks:
    """Asks brokers, once per expression, whether they can evaluate it; no broker is asked for tags."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """For *group*, over the connections of *instance*."""
        self._instance = instance
        self._group = group
        self._accepted: set[tuple[str, Subscription]] = set()  # with the broker's address

    async def check(self, address: str, wanted: Subscription) -> None:
        """Ask one broker.

        Raises:
            FilterRefused: it cannot evaluate the expression.
            BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: it cannot answer now.
        """
        key = (address, wanted)
        if wanted.type == TAG or key in self._accepted:
            return
        body = {"clientId": self._instance.client_id, "group": self._group, "subscriptionData": wanted.to_json()}
        try:
            await self._instance.rpc.call(address, RequestCode.CHECK_CLIENT_CONFIG, body=dumps(body))
        except BrokerRefused as refusal:
            if isinstance(refusal, AccessDenied) or refusal.response_code in _NOT_NOW:
                raise
            raise FilterRefused(refusal.response_code, refusal.remark, address) from None
        if len(self._accepted) >= _MOST_ACCEPTED:
            self._accepted.clear()
        self._accepted.add(key)

    async def check_topic(self, wanted: Subscription, queues: Iterable[MessageQueue]) -> None:
        """Ask the brokers of *queues*, all of the topic. Those that do not answer are asked with the first pull.

        Raises:
            FilterRefused: one cannot evaluate the expression.
        """
        if wanted.type != TAG:
            names = sorted({queue.broker_name for queue in queues})
            await asyncio.gather(*(self._check_broker(name, wanted) for name in names))

    async def _check_broker(self, broker_name: str, wanted: Subscription) -> None:
        try:
            await self.check(await self._instance.routes.find_broker(wanted.topic, broker_name, 0), wanted)
        except FilterRefused:
            raise
        except ClientError as problem:
            logger.debug("broker %s did not check the expression of %s: %s", broker_name, wanted.topic, problem)


class GroupPulls:
    """Sends pull requests; the caller decodes the responses."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        """For *group*, over the connections of *instance*."""
        self._instance = instance
        self._group = group
        self._suggested: dict[MessageQueue, int] = {}  # broker id to ask next
        self._avoided: dict[str, float] = {}  # by address: until then, on the monotonic clock
        self.filters = FilterChecks(instance, group)

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
            FilterRefused: the broker cannot evaluate the expression.
            ConnectFailed, ConnectionLost, CallTimeout: no response.
        """
        address = await self._address(queue)
        at_master = address == self._instance.routes.master(queue.broker_name)
        flag = PULL_SUBSCRIPTION | (PULL_SUSPEND if suspend_ms > 0 else 0)
        if commit > 0 and at_master:
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
        try:
            reply = await self._exchange(address, header, wanted)
        except UNREACHABLE as problem:
            if isinstance(problem, CallTimeout):  # a frozen broker, or a machine that was lost
                self._instance.outages.silent(address)
                self._instance.rpc.disconnect(address, abort=True)
            if address not in self._avoided:  # else the route was fetched moments ago
                self._avoid(address)
                await self._instance.routes.renew(queue.topic, ROUTE_TIMEOUT_S)
            raise
        if not at_master:
            await self._check_slave(reply, address, offset, may_wait=suspend_ms > 0)
        return reply, address

    async def _exchange(self, address: str, header: PullMessageRequest, wanted: Subscription) -> Command:
        instance = self._instance
        await instance.registration.ensure_registered(address)
        await self.filters.check(address, wanted)
        timeout_s = PULL_TIMEOUT_S + header.suspend_timeout_millis / 1000
        return await instance.rpc.exchange(address, RequestCode.PULL_MESSAGE, header, timeout_s=timeout_s)

    async def _address(self, queue: MessageQueue) -> str:
        """Return the address of the suggested replica, or of another one if that is avoided."""
        routes = self._instance.routes
        suggested = await routes.find_broker(queue.topic, queue.broker_name, self._suggested.get(queue, 0))
        if not self._avoided:
            return suggested
        now = self._instance.world.clock.monotonic()
        self._avoided = {address: until for address, until in self._avoided.items() if until > now}
        others = routes.replicas(queue.broker_name)
        return next((each for each in (suggested, *others) if each not in self._avoided), suggested)

    def _avoid(self, address: str) -> None:
        self._avoided[address] = self._instance.world.clock.monotonic() + AVOIDED_S

    async def _check_slave(self, reply: Command, address: str, offset: int, *, may_wait: bool) -> None:
        """Avoid a slave that refuses readers; wait after a reply at its end."""
        if reply.code == ResponseCode.SYSTEM_BUSY:
            self._avoid(address)
        elif reply.code == ResponseCode.PULL_RETRY_IMMEDIATELY:
            ext = reply.ext = dict(reply.ext or {})
            try:
                if int(ext["nextBeginOffset"]) > offset:
                    return
            except (KeyError, ValueError):
                return  # decoding the reply raises the right error
            # A slave of RocketMQ that is behind sends its own end, where the messages would be read a second time.
            ext["nextBeginOffset"] = str(offset)
            if may_wait:
                await self._instance.world.clock.sleep(SLAVE_PAUSE_S)

    def note(self, queue: MessageQueue, found: PullResult | PulledRecords) -> None:
        """Remember the replica that the broker suggested for the next pull."""
        self._suggested[queue] = found.suggested_broker_id
