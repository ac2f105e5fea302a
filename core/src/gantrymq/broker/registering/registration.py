"""Registration with the name servers: at startup, periodically, and immediately when a topic changes.

A new or changed topic is first registered alone (217), because a full registration (103) contains every topic: with
thousands of topics each change would cost as much as all of them. A full registration follows, one for all changes
meanwhile: its response has the ordered topics, and it corrects a name server that was restarted or did not accept all
changes. It is delayed by `WHOLE_TIMES` the duration of the last one, so it follows at once with few topics, and takes a
twentieth of the time with many. A deleted topic also causes one, because only a full registration removes topics. Name
servers that do not support 217 (RocketMQ 4) get only full registrations, as do all of them after many changes at once.

A name server replaces all topics if the version of a full registration differs from the last one, which undoes changes
of operators there, such as write permission (205). So a registration keeps its version if all changes since were
registered alone. RocketMQ instead sends 103 with one topic under the new version, with the same effect, but a name
server with ``deleteTopicWithBrokerRegistration`` then deletes the other topics.

Name servers are independent of each other; one that does not respond is retried after 1 second and then every 2
seconds. After a connection closes, the registration is repeated after a second until the name server is back.

Source: apache/rocketmq broker/.../BrokerController.java (registerBrokerAll, registerSingleTopicAll),
out/BrokerOuterAPI.java, namesrv/.../routeinfo/RouteInfoManager.java (registerBroker, isTopicConfigChanged).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import attrs

from gantrymq import loose_json
from gantrymq.broker.counted_plugins import CountFailure, Listeners
from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.registering.register_messages import RegisterMessages
from gantrymq.broker.registering.reported_masters import Master, ReportedMasters
from gantrymq.broker.registering.topic_routes import TopicRoutes
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import ClientError, FormatError, GantryError
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.nameserver import UnregisterBrokerRequest
from gantrymq.remoting.inner_client import refused
from gantrymq.world import World
from gantrymq.world.clock import wait_set

log = logging.getLogger(__name__)

MIN_PERIOD_S = 10.0  # BrokerController keeps registerNameServerPeriod within these bounds
MAX_PERIOD_S = 60.0
UNREGISTER_TIMEOUT_S = 3.0  # as BrokerOuterAPI.unregisterBroker
WHOLE_TIMES: Final = 20
WHOLE_AFTER_S: Final = 5.0  # maximum delay of a full registration after a change or deletion of a topic
MOST_SINGLE: Final = 256  # topics to register alone at once; more of them cause a full registration
LOST_S: Final = 1.0  # delay after a connection closes, also if each registration's connection closes
MOST_PAUSE_S: Final = 2.0  # maximum time between attempts
TOLD_S: Final = 3.0  # maximum time the creation of a topic waits for name servers
OTHERS_S = 1.0  # maximum time a start waits for further name servers after the first one


class Registration:
    """Keeps the registrations of one broker up to date; `gantrymq.interfaces.Registration`."""

    def __init__(
        self,
        client: RemotingClient,
        world: World,
        name_servers: Sequence[str],
        identity: BrokerIdentity,
        topics: TopicTable,
        *,
        period_s: float,
        timeout_s: float,
        failed: CountFailure = lambda kind, name: None,
    ) -> None:
        """*failed* counts exceptions of listeners."""
        self._client = client
        self._clock = world.clock
        self._topics = topics
        self._period_s = min(MAX_PERIOD_S, max(MIN_PERIOD_S, period_s))
        self._timeout_s = timeout_s
        self._messages = RegisterMessages(world, identity, topics)
        self._loops = {address: _Loop(self, address) for address in name_servers}
        self.cluster, self.broker_name, self.address = identity.cluster, identity.broker_name, identity.address
        self._routes = TopicRoutes(lambda: self._messages.identity, topics, client, name_servers, world.clock)
        self.cluster_queues, self.route = self._routes.readable, self._routes.route
        self._master_told = Listeners[[str, str]]("the master's address", failed)
        self._masters = ReportedMasters()
        self.held = ""  # why this broker is not to be registered for now
        client.on_close(self._lost)

    def start(self) -> None:
        """Start to register; does not block."""
        for loop in self._loops.values():
            loop.start()

    async def registered(self) -> None:
        """Wait until one name server has accepted the registration and the others have accepted or refused it.

        Wait for the others at most `OTHERS_S` after the first one. Return at once if the registration is held.
        """
        if not self._loops or self.held:
            return
        loops = self._loops.values()
        await _wait([loop.first.wait() for loop in loops], asyncio.FIRST_COMPLETED)
        await self._all_within([loop.tried.wait() for loop in loops], OTHERS_S)

    async def told(self) -> None:
        """Wait until the name servers have accepted or refused the changes so far, at most `TOLD_S`.

        Unreachable name servers are skipped.
        """
        await self._all_within([loop.told() for loop in self._loops.values() if loop.problem is None], TOLD_S)

    async def _all_within(self, for_each: Sequence[Coroutine[Any, Any, Any]], seconds: float) -> None:
        if not for_each:
            return
        late = asyncio.Event()
        timer = self._clock.call_later(seconds, late.set)
        try:
            await _wait([_wait(for_each, asyncio.ALL_COMPLETED), late.wait()], asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def states(self) -> dict[str, str | None]:
        """Return the last error of each name server by address; None if this broker is registered there."""
        return {address: loop.problem for address, loop in self._loops.items()}

    @property
    def broker_id(self) -> int:
        """The id under which the broker is registered."""
        return self._messages.identity.broker_id

    @property
    def ha_address(self) -> str:
        """The address of replication."""
        return self._messages.identity.ha_address

    @property
    def master_address(self) -> str:
        """The address of a slave's master as name servers report it; empty if they do not."""
        return "" if self._masters.present is None else self._masters.present.address

    def change(
        self,
        *,
        broker_id: int | None = None,
        ha_address: str | None = None,
        heartbeat_timeout_ms: int | None = None,
        held: str | None = None,
    ) -> None:
        """Register with another id, address of replication or limit of heartbeats, or not at all while *held*."""
        known = self._messages.identity
        self.held = self.held if held is None else held
        self._messages.identity = attrs.evolve(
            known,
            broker_id=known.broker_id if broker_id is None else broker_id,
            ha=known.ha if ha_address is None else ha_address,
            heartbeat_timeout_ms=heartbeat_timeout_ms or known.heartbeat_timeout_ms,
        )
        self.changed()

    def on_master_told(self, callback: Callable[[str, str], Any]) -> Callable[[], None]:
        """Call *callback* with the master's address and its address of replication: soon if known, after changes."""
        remove = self._master_told.add(callback)
        if self._masters.present is not None:
            asyncio.get_running_loop().call_soon(self._tell_master)
        return remove

    def _tell_master(self) -> None:
        if self._masters.present is not None:
            self._master_told.call(*self._masters.present)

    def changed(self) -> None:
        """Start a full registration with all name servers, after a change of all topics."""
        for loop in self._loops.values():
            loop.wake()

    def topic_deleted(self) -> None:
        """Schedule one full registration with all name servers for the topics deleted meanwhile."""
        for loop in self._loops.values():
            loop.wake_soon()

    def topic_changed(self, name: str) -> None:
        """Register a new or changed topic with all name servers now."""
        for loop in self._loops.values():
            loop.wake(name)

    def _lost(self, address: str, _: Connection) -> None:
        """Register again after a connection closed, because the name server may have been restarted."""
        loop = self._loops.get(address)
        if loop is not None:
            loop.lost()

    async def stop(self) -> None:
        """Stop registering and unregister; name servers that do not respond will expire the registration."""
        await self._routes.stop()
        for loop in self._loops.values():
            await loop.stop()
        identity = self._messages.identity
        header = UnregisterBrokerRequest(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )
        asked = [
            self._client.call(
                address, request(RequestCode.UNREGISTER_BROKER, header.to_ext()), timeout_s=UNREGISTER_TIMEOUT_S
            )
            for address, loop in self._loops.items()
            # a name server that never accepted a registration has nothing to remove
            if loop.first.is_set()
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, ClientError):
                log.warning("not unregistered: %s", outcome)

    async def register_with(self, address: str, known: DataVersion | None) -> DataVersion | None:
        """Register once with one name server and return the version that it now has.

        Args:
            known: see `RegisterMessages.whole`.
        Raises:
            ClientError: it cannot be reached, does not respond in time, or refuses.
        """
        await self._client.connect(address)  # fail before encoding thousands of topics
        async for message, version in self._messages.whole(known):
            known = version
            answer = await self._client.call(address, message, timeout_s=self._timeout_s)
            if answer.code != 0:
                raise refused(self._client, answer, address)
        self._topics.mark_ordered(sorted(order_topics(answer.payload)))
        told = answer.ext or {}
        known_to_it = told.get("masterAddr") and told.get("haServerAddr")
        master = Master(told["masterAddr"], told["haServerAddr"]) if known_to_it else None
        if self._masters.heard(address, master):
            self._tell_master()
        return known

    def name_server_lost(self, address: str) -> None:
        """Ignore the last report of a name server that became unreachable."""
        if self._masters.lost(address):
            self._tell_master()

    async def tell_topics(self, address: str, names: Sequence[str]) -> bool:
        """Register single topics with one name server. Return False if it did not accept all of them.

        Raises:
            ClientError: it cannot be reached or does not respond in time.
        """
        messages = [message for message in map(self._messages.one, names) if message is not None]
        calls = [self._client.call(address, message, timeout_s=self._timeout_s) for message in messages]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return all(answer.code == 0 for answer in answers if isinstance(answer, Command))


class _Loop:
    """The registration loop for one name server."""

    def __init__(self, registration: Registration, address: str) -> None:
        self._registration = registration
        self._address = address
        self._wanted = asyncio.Event()
        self._topics: dict[str, None] = {}  # topics to register alone
        self._queued, self._telling = asyncio.Event(), asyncio.Event()  # set after those, and those of the current step
        self._telling.set()
        self._known: DataVersion | None = None  # the name server's version
        self._renew = True  # the name server may have missed changes and must replace all topics
        self._takes_single = True  # False after an error response to 217
        self._whole_s = 0.0  # duration of the last full registration
        self._whole_at: float | None = 0.0  # monotonic time of the next full registration; None: by the period
        self._task: asyncio.Task[None] | None = None
        self.first = asyncio.Event()  # set after the first success
        self.tried = asyncio.Event()  # set after the first success or failure
        self.problem: str | None = "not registered yet"

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self, topic: str | None = None) -> None:
        """Register *topic*, or all topics, now."""
        if topic is None:
            self._whole_at, self._renew = 0.0, True
        else:
            self._topics[topic] = None
        self._wanted.set()

    def wake_soon(self) -> None:
        """Schedule a full registration that includes changes until then."""
        if self._whole_at is None:
            self._plan_whole()
            self._wanted.set()

    def lost(self) -> None:
        """Schedule a full registration, unless one is already being attempted."""
        if self.problem is None:
            self._whole_at = self._registration._clock.monotonic() + LOST_S
            self._wanted.set()

    async def told(self) -> None:
        """Wait until every topic of `wake` has been registered or has failed."""
        await (self._queued if self._topics else self._telling).wait()

    def _plan_whole(self) -> None:
        """Schedule the next full registration in proportion to the duration of the last one."""
        self._whole_at = self._registration._clock.monotonic() + min(WHOLE_AFTER_S, WHOLE_TIMES * self._whole_s)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            # Unlike await, this raises neither the cancellation nor an error of the task.
            await asyncio.wait([self._task])
        self._telling.set()
        self._queued.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            # Cleared first, so that a wake during the registration starts another one.
            self._wanted.clear()
            if self._registration.held:
                self.problem = self._registration.held
                self._telling.set()
                await self._wanted.wait()
                continue
            try:
                await self._tell()
                if failures:
                    log.warning("registered with name server %s again", self._address)
                failures = 0
                self.problem = None
                self.first.set()
            except Exception as error:
                self._whole_at, self._renew = 0.0, True  # the name server may have been restarted
                if not failures:
                    fault = None if isinstance(error, GantryError) else error  # a bug: log the traceback
                    log.warning(
                        "not registered with name server %s, trying on: %s", self._address, error, exc_info=fault
                    )
                failures += 1
                self.problem = str(error) or type(error).__name__
                self._registration.name_server_lost(self._address)
            self.tried.set()
            self._telling.set()
            await self._pause(failures)

    async def _tell(self) -> None:
        """Register single topics if that is enough, otherwise all topics.

        Raises:
            ClientError: same as `Registration.register_with`.
        """
        registration, names, now = self._registration, list(self._topics), self._registration._clock.monotonic()
        self._topics.clear()
        self._telling, self._queued = self._queued, asyncio.Event()
        if names and self._takes_single and not self._renew and len(names) <= MOST_SINGLE:
            if self._whole_at is None:
                self._plan_whole()
            self._takes_single = await registration.tell_topics(self._address, names)
            names = names if not self._takes_single else []
        if not names and self._whole_at is not None and self._whole_at > now:
            return  # the full registration is due later
        known = None if names or self._renew else self._known
        self._whole_at, self._renew, began = None, False, registration._clock.monotonic()
        self._known = await registration.register_with(self._address, known)
        self._whole_s = registration._clock.monotonic() - began

    async def _pause(self, failures: int) -> None:
        period, clock = self._registration._period_s, self._registration._clock
        delay = min(MOST_PAUSE_S, 2.0 ** (failures - 1)) if failures else period
        if not failures and self._whole_at is not None:
            delay = min(delay, max(0.0, self._whole_at - clock.monotonic()))
        await wait_set(clock, self._wanted, delay)


async def _wait(for_each: Sequence[Coroutine[Any, Any, Any]], how: str) -> None:
    """Wait for the first or for all; cancel the others, also if this call is cancelled."""
    waits = [asyncio.ensure_future(each) for each in for_each]
    try:
        await asyncio.wait(waits, return_when=how)
    finally:
        for wait in waits:
            wait.cancel()


def order_topics(body: bytes) -> frozenset[str]:
    """Return the ordered topics in a name server's response; empty if it has none."""
    if not body:
        return frozenset()
    try:
        table: Any = loose_json.loads(body)
    except FormatError:
        return frozenset()
    members = table.get("table") if isinstance(table, dict) else None
    return frozenset(str(topic) for topic in members) if isinstance(members, dict) else frozenset()
