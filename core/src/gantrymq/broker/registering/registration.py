"""Registration with the name servers: at start, every period, and at once when a topic changes.

A topic that came or changed is told by itself (217), since a whole registration (103) names every topic: with thousands
of them each new one would cost what all cost. A whole one follows, once for all that changed meanwhile: its answer says
which topics are ordered, and a name server that was restarted, or took less than it was told, is not wrong for long. It
follows after `WHOLE_TIMES` the time that the last one took: at once with few topics, and a twentieth of the time with
many. So does one after a topic was deleted, which only a whole one tells. A name server that does not know 217
(RocketMQ 4) gets whole registrations only; so does every one when many topics changed at once.

A name server takes all topics of a whole registration anew if its version is another than the last one, and so undoes
what an operator changed there, such as write permission (205). A registration after which all changes were told by
themselves therefore keeps its version. RocketMQ tells one topic by 103 under the new version, to the same effect, but a
name server with ``deleteTopicWithBrokerRegistration`` then deletes the others.

All name servers are told side by side; one that does not answer is tried again after 1 second and then every 2, and
costs the others nothing. One whose connection closes is told again after a second, and so on until it is back.

Source: apache/rocketmq broker/.../BrokerController.java (registerBrokerAll, registerSingleTopicAll),
out/BrokerOuterAPI.java, namesrv/.../routeinfo/RouteInfoManager.java (registerBroker, isTopicConfigChanged).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any, Final

from gantrymq import loose_json
from gantrymq.broker.identity import Identity
from gantrymq.broker.registering.register_messages import RegisterMessages
from gantrymq.broker.tables.topics import TopicTable
from gantrymq.errors import BrokerRefused, ClientError, FormatError, GantryError
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.headers.nameserver import UnregisterBrokerRequest
from gantrymq.world import World

log = logging.getLogger(__name__)

MIN_PERIOD_S = 10.0
MAX_PERIOD_S = 60.0
UNREGISTER_TIMEOUT_S = 3.0
WHOLE_TIMES: Final = 20
WHOLE_AFTER_S: Final = 5.0  # at most so long after the first topic that was told by itself, or deleted
MOST_SINGLE: Final = 256  # topics told by themselves in one go; more of them go into one whole registration
LOST_S: Final = 1.0  # after a connection closed, and between registrations with one that closes each
MOST_PAUSE_S: Final = 2.0  # between two tries: a name server that is back knows the broker so soon
TOLD_S: Final = 3.0  # at most so long does the creation of a topic wait for name servers
OTHERS_S = 1.0  # a broker is ready so long after the first name server knows it, whatever the others do


class Registration:
    """Keeps the name servers informed of one broker."""

    def __init__(
        self,
        client: RemotingClient,
        world: World,
        name_servers: Sequence[str],
        identity: Identity,
        topics: TopicTable,
        *,
        period_s: float,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._clock = world.clock
        self._identity = identity
        self._topics = topics
        self._period_s = min(MAX_PERIOD_S, max(MIN_PERIOD_S, period_s))
        self._timeout_s = timeout_s
        self._messages = RegisterMessages(world, identity, topics)
        self._loops = {address: _Loop(self, address) for address in name_servers}
        client.on_close(self._lost)

    def start(self) -> None:
        """Begin to register; returns at once."""
        for loop in self._loops.values():
            loop.start()

    async def registered(self) -> None:
        """Wait until one name server has taken the registration, and the others have taken or refused it.

        Those that do neither are not waited for longer than `OTHERS_S` after the first.
        """
        if not self._loops:
            return
        loops = self._loops.values()
        await _wait([loop.first.wait() for loop in loops], asyncio.FIRST_COMPLETED)
        await self._all_within([loop.tried.wait() for loop in loops], OTHERS_S)

    async def told(self) -> None:
        """Wait until the name servers have taken or refused the topics that changed so far, `TOLD_S` at most.

        Those that cannot be reached are not waited for.
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
        """Each name server's address, with what went wrong there the last time; None when it has us registered."""
        return {address: loop.problem for address, loop in self._loops.items()}

    def changed(self) -> None:
        """All topics changed: register with all name servers now."""
        for loop in self._loops.values():
            loop.wake()

    def topic_deleted(self) -> None:
        """A topic was deleted: register with all name servers soon, once for all that are deleted meanwhile."""
        for loop in self._loops.values():
            loop.wake_soon()

    def topic_changed(self, name: str) -> None:
        """A topic came or changed: tell all name servers now."""
        for loop in self._loops.values():
            loop.wake(name)

    def _lost(self, address: str, _: Connection) -> None:
        """A connection closed: the name server may be another process when it is back, and know nothing of us."""
        loop = self._loops.get(address)
        if loop is not None:
            loop.lost()

    async def stop(self) -> None:
        """Stop registering and unregister; a name server that does not answer is left to expire us."""
        for loop in self._loops.values():
            await loop.stop()
        identity = self._identity
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
            if loop.first.is_set()
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, ClientError):
                log.warning("not unregistered: %s", outcome)

    async def register_with(self, address: str, known: DataVersion | None) -> DataVersion | None:
        """Register once with one name server and return the version that it has then.

        Args:
            known: as `RegisterMessages.whole`.
        Raises:
            ClientError: it cannot be reached, does not answer in time, or refuses.
        """
        await self._client.connect(address)  # before thousands of topics are put into words for nobody
        async for message, version in self._messages.whole(known):
            known = version
            answer = await self._client.call(address, message, timeout_s=self._timeout_s)
            if answer.code != 0:
                raise BrokerRefused(answer.code, answer.remark or "no reason given", address)
        self._topics.mark_ordered(sorted(order_topics(answer.payload)))
        return known

    async def tell_topics(self, address: str, names: Sequence[str]) -> bool:
        """Tell one name server of single topics; False when it did not take them all.

        Raises:
            ClientError: it cannot be reached or does not answer in time.
        """
        messages = [message for message in map(self._messages.one, names) if message is not None]
        calls = [self._client.call(address, message, timeout_s=self._timeout_s) for message in messages]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return all(answer.code == 0 for answer in answers if isinstance(answer, Command))


class _Loop:
    """Registers with one name server for as long as the broker runs."""

    def __init__(self, registration: Registration, address: str) -> None:
        self._registration = registration
        self._address = address
        self._wanted = asyncio.Event()
        self._topics: dict[str, None] = {}  # to be told by themselves
        self._queued, self._telling = asyncio.Event(), asyncio.Event()  # set when those, or those before, were told
        self._telling.set()
        self._known: DataVersion | None = None  # the version that it has
        self._renew = True  # it may not have been told of every change since, so that it has to take all topics anew
        self._takes_single = True  # until it does not answer 217 with 0
        self._whole_s = 0.0  # what the last whole registration took
        self._whole_at: float | None = 0.0  # when the next whole registration is due, monotonic; None: by the period
        self._task: asyncio.Task[None] | None = None
        self.first = asyncio.Event()  # set by the first success
        self.tried = asyncio.Event()  # set by the first success or failure
        self.problem: str | None = "not registered yet"

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self, topic: str | None = None) -> None:
        """Tell of *topic*, or register as a whole, now."""
        if topic is None:
            self._whole_at, self._renew = 0.0, True
        else:
            self._topics[topic] = None
        self._wanted.set()

    def wake_soon(self) -> None:
        """Register as a whole after a while, for what happens until then as well."""
        if self._whole_at is None:
            self._plan_whole()
            self._wanted.set()

    def lost(self) -> None:
        """Register as a whole in a moment, unless that is being tried anyway."""
        if self.problem is None:
            self._whole_at = self._registration._clock.monotonic() + LOST_S
            self._wanted.set()

    async def told(self) -> None:
        """Wait until every topic of `wake` was told, or could not be."""
        await (self._queued if self._topics else self._telling).wait()

    def _plan_whole(self) -> None:
        """At once where that takes no time, and a twentieth of the time where it does."""
        self._whole_at = self._registration._clock.monotonic() + min(WHOLE_AFTER_S, WHOLE_TIMES * self._whole_s)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._telling.set()
        self._queued.set()

    async def _run(self) -> None:
        failures = 0
        while True:
            self._wanted.clear()
            try:
                await self._tell()
                if failures:
                    log.warning("registered with name server %s again", self._address)
                failures = 0
                self.problem = None
                self.first.set()
            except Exception as error:
                self._whole_at, self._renew = 0.0, True  # it may be another process when it comes back
                if not failures:
                    fault = None if isinstance(error, GantryError) else error  # whose traceback somebody has to read
                    log.warning(
                        "not registered with name server %s, trying on: %s", self._address, error, exc_info=fault
                    )
                failures += 1
                self.problem = str(error) or type(error).__name__
            self.tried.set()
            self._telling.set()
            await self._pause(failures)

    async def _tell(self) -> None:
        """Tell of single topics where that is enough, or register as a whole.

        Raises:
            ClientError: as `Registration.register_with`.
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
            return  # only told, or woken to wait for no longer than until then
        known = None if names or self._renew else self._known
        self._whole_at, self._renew, began = None, False, registration._clock.monotonic()
        self._known = await registration.register_with(self._address, known)
        self._whole_s = registration._clock.monotonic() - began

    async def _pause(self, failures: int) -> None:
        period, clock = self._registration._period_s, self._registration._clock
        delay = min(MOST_PAUSE_S, 2.0 ** (failures - 1)) if failures else period
        if not failures and self._whole_at is not None:
            delay = min(delay, max(0.0, self._whole_at - clock.monotonic()))
        timer = clock.call_later(delay, self._wanted.set)
        try:
            await self._wanted.wait()
        finally:
            timer.cancel()


async def _wait(for_each: Sequence[Coroutine[Any, Any, Any]], how: str) -> None:
    """Wait for the first or for all; a start that is cancelled meanwhile leaves none of them behind."""
    waits = [asyncio.ensure_future(each) for each in for_each]
    try:
        await asyncio.wait(waits, return_when=how)
    finally:
        for wait in waits:
            wait.cancel()


def order_topics(body: bytes) -> frozenset[str]:
    """Topics of the KV table that a name server sends back; empty when it sends none."""
    if not body:
        return frozenset()
    try:
        table: Any = loose_json.loads(body)
    except FormatError:
        return frozenset()
    members = table.get("table") if isinstance(table, dict) else None
    return frozenset(str(topic) for topic in members) if isinstance(members, dict) else frozenset()
