"""A cluster as the console sees it: one client, and answers that all visitors share.

A shared answer is refreshed only on demand: when a visitor asks for it and it is older than its age. Concurrent
visitors wait for the same request.

Routes have the brokers that name servers have forgotten. A name server drops a broker that stopped or is not heard of,
and with it all that the broker has: a topic without that broker's queues, or no topic at all. The console still knows
the broker, so that nothing is shown as complete without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from typing import Any, Final, Generic, TypeVar, cast

import attrs

from gantrymq.client import Admin, Client, Reader
from gantrymq.errors import NoRoute
from gantrymq.plugin.client import BrokerAddresses, TopicRoute
from gantrymq.plugin.world import World, monotonic_ms
from gantrymq_admin.asking import UNKNOWN_ADDRESS, Asking, Missing, retrieve
from gantrymq_admin.brokers import asked_slave

_READER_GROUP: Final = "TOOLS_CONSUMER"  # group that exists on every broker
HEAD_BYTES: Final = 64 * 1024  # of a body that are decompressed for lists
_MOST_SHARED: Final = 4096  # answers
_PATIENCE_S: Final = 0.05
KNOWN_S: Final = 24 * 3600  # after which a broker that is gone is not missed any more
_BRIEF_S: Final = 600  # the same for one that was registered for a shorter time than that, such as by mistake

Got = TypeVar("Got")
_AS_OF_AGE_S: Final = 5.0
_AS_OF_SHARE: Final = 0.3  # of the time of a page
_GONE: Final = "not registered at the name servers any more"


@attrs.frozen
class Aged(Generic[Got]):
    """An answer and when it was given."""

    value: Got
    as_of_ms: int  # wall time


@attrs.frozen
class BrokerAddress:
    """A registered broker."""

    cluster: str
    name: str
    broker_id: int  # 0 for a master
    address: str

    @property
    def title(self) -> str:
        """The name, with the id of a slave."""
        return f"{self.name}:{self.broker_id}" if self.broker_id else self.name


@attrs.define
class _Shared:
    task: asyncio.Task[Any]
    begun_ms: int  # of the monotonic clock
    last: Aged[Any] | None  # the answer before, until this one is made
    last_ms: int  # when it was begun


class Cluster:
    """Access to the servers behind one list of name servers."""

    def __init__(self, client: Client, world: World) -> None:
        """Create it for a started client, which the caller closes."""
        self.client = client
        self.world = world
        self._shared: dict[Hashable, _Shared] = {}
        self.kept: dict[str, Any] = {}  # values that parts of the console keep, by name
        self._background: dict[Hashable, asyncio.Future[Any]] = {}
        self._readers: dict[int, Reader] = {}
        self.known: dict[tuple[str, int], BrokerAddress] = {}  # now or lately, and masters of slaves
        self.rivals: dict[str, tuple[str, ...]] = {}  # other brokers that register as the master of a name
        self._registered_s: dict[tuple[str, int], tuple[float, float]] = {}  # of `known`: since when at most, and last
        self._looked_s: float | None = None  # when the list of brokers was last made

    @property
    def admin(self) -> Admin:
        """Administration calls."""
        return self.client.admin

    @property
    def reader(self) -> Reader:
        """A reader of messages, which commits nothing. It decompresses up to `HEAD_BYTES` of a body."""
        return self.reader_of(HEAD_BYTES)

    def reader_of(self, body_bytes: int) -> Reader:
        """Return a reader that decompresses up to *body_bytes* of a body: a few KB may become 64 MiB."""
        if body_bytes not in self._readers:
            self._readers[body_bytes] = self.client.reader(group=_READER_GROUP, max_body_bytes=body_bytes)
        return self._readers[body_bytes]

    async def shared(
        self, key: Hashable, age_s: float, make: Callable[[], Awaitable[Got]], late_s: float = 0.0
    ) -> Aged[Got]:
        """Return the answer to *make* that is at most *age_s* old, for all who ask for *key*.

        A failure is not kept. Cancelling a caller does not cancel the request that others wait for.

        Args:
            key: of the answer.
            age_s: after which a new answer is made.
            make: asks.
            late_s: by which an answer may be older if a new one is not made within `_PATIENCE_S`.
        """
        now = monotonic_ms(self.world.clock)
        found = self._shared.get(key)
        if found is None or (found.task.done() and (_failed(found.task) or now - found.begun_ms >= age_s * 1000)):
            task = asyncio.ensure_future(self._aged(make))
            last = None if found is None or _failed(found.task) else found.task.result()
            found = self._shared[key] = _Shared(task, now, last, now if found is None else found.begun_ms)
            task.add_done_callback(partial(self._made, key))
            if len(self._shared) > _MOST_SHARED:
                self._drop_oldest()
        if found.last is not None and now - found.last_ms < (age_s + late_s) * 1000 and not found.task.done():
            late = asyncio.ensure_future(self.world.clock.sleep(_PATIENCE_S))
            try:
                await asyncio.wait((found.task, late), return_when=asyncio.FIRST_COMPLETED)
            finally:
                late.cancel()
            if not found.task.done():
                return cast("Aged[Got]", found.last)
        return cast("Aged[Got]", await asyncio.shield(found.task))

    def keep_on(self, key: Hashable, work: Callable[[], Awaitable[Any]]) -> None:
        """Run *work* in the background, unless work of the same *key* still runs; `close` cancels it."""
        running = self._background.get(key)
        if running is None or running.done():
            task = self._background[key] = asyncio.ensure_future(work())
            task.add_done_callback(retrieve)

    def forget(self, *keys: Hashable) -> None:
        """Drop shared answers that a change made wrong; without *keys*, all."""
        for key in keys or list(self._shared):
            self._shared.pop(key, None)

    async def brokers(self) -> tuple[BrokerAddress, ...]:
        """Return all registered brokers, sorted, at most 5 s old."""
        return (await self.shared("brokers", 5, self._brokers)).value

    async def addresses(self) -> tuple[BrokerAddresses, ...]:
        """Return all registered brokers by name, at most 5 s old."""
        found: dict[tuple[str, str], dict[int, str]] = {}
        for each in await self.brokers():
            found.setdefault((each.name, each.cluster), {})[each.broker_id] = each.address
        return tuple(BrokerAddresses(name, cluster, at) for (name, cluster), at in found.items())

    async def masters(self) -> dict[str, str]:
        """Return the addresses of the masters by broker name, also of those that are gone, which are then missing."""
        registered = {each.name: each.address for each in await self.brokers() if each.broker_id == 0}
        return registered | await self.gone()

    async def slaves_asked(self) -> dict[str, str]:
        """Return the slave to read from by broker name, for the names of which no master is registered."""
        registered: dict[str, str] = {}
        for each in await self.brokers():  # sorted: the lowest id of each name first
            registered.setdefault(each.name, each.address if each.broker_id else "")
        return {name: address for name, address in registered.items() if address}

    async def readers(self) -> dict[str, str]:
        """Return the address to read from by broker name: `masters`, or slaves in place of those that are gone."""
        return await self.masters() | await self.slaves_asked()

    async def gone(self) -> dict[str, str]:
        """Return the masters that were registered lately, and are not now, by broker name.

        They are missed as long as they were registered, at least `_BRIEF_S` and at most `KNOWN_S`.

        Includes the masters of registered slaves; the address is a placeholder if it was never known.
        """
        registered = {each.name for each in await self.brokers() if each.broker_id == 0}
        known = (each for each in self.known.values() if each.broker_id == 0)
        return {each.name: each.address for each in known if each.name not in registered}

    def missed_ms(self, name: str, broker_id: int) -> tuple[int | None, int | None]:
        """Return when a known broker was last registered, and until when it is missed; wall times, None: not known."""
        since, last = self._registered_s.get((name, broker_id), (None, None))
        if since is None or last is None:
            return None, None
        last_ms = self.world.clock.now_ms() - int((self.world.clock.monotonic() - last) * 1000)
        return last_ms, last_ms + int(_missed_s(since, last) * 1000)

    def dismiss(self, name: str, broker_id: int) -> None:
        """Miss a broker that is gone no longer. It is known again when it registers."""
        self.known.pop((name, broker_id), None)
        self.forget()

    async def _brokers(self) -> tuple[BrokerAddress, ...]:
        info = await self.admin.clusters()
        found = tuple(
            BrokerAddress(broker.cluster, broker.name, broker_id, address)
            for broker in info.brokers
            for broker_id, address in sorted(broker.addresses.items())
        )
        self.rivals = {each.name: each.rivals for each in info.brokers if each.rivals}
        now, used = self.world.clock.monotonic(), {each.address for each in found}
        kept = {
            place: each
            for place, each in self.known.items()
            if each.address not in used and self._is_missed(place, now)
        }
        present = {(each.name, each.broker_id): each for each in found}
        before = now - KNOWN_S if self._looked_s is None else self._looked_s
        self.known = kept | present  # one that moved has replaced itself
        for each in found:
            place = each.name, 0
            if place not in self.known:  # it was gone before this console looked, or is for long
                self.known[place] = BrokerAddress(each.cluster, each.name, 0, f"{UNKNOWN_ADDRESS} {each.name}")
                present[place] = self.known[place]
        times = {place: self._registered_s.get(place, (before, now)) for place in self.known}
        self._registered_s = times | {place: (times[place][0], now) for place in present}
        self._looked_s = now
        return found

    def _is_missed(self, place: tuple[str, int], now: float) -> bool:
        since, last = self._registered_s[place]
        return now - last < _missed_s(since, last)

    async def _aged(self, make: Callable[[], Awaitable[Got]]) -> Aged[Got]:
        value = await make()
        return Aged(value, self.world.clock.now_ms())

    def _made(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        """Forget a failed answer, and the one before. An exception counts as retrieved: all who asked may be gone."""
        failed, known = _failed(task), self._shared.get(key)
        if known is not None and known.task is task:
            known.last = None
            if failed:
                del self._shared[key]

    def _drop_oldest(self) -> None:
        done = [key for key, each in self._shared.items() if each.task.done()]
        for key in sorted(done, key=lambda key: self._shared[key].begun_ms)[: _MOST_SHARED // 4]:
            del self._shared[key]

    async def close(self) -> None:
        """Cancel requests and work that are running."""
        started = [*(each.task for each in self._shared.values()), *self._background.values()]
        tasks = [task for task in started if not task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _missed_s(since: float, last: float) -> float:
    """Return for how long a broker is missed that was registered from *since* until *last*."""
    return min(KNOWN_S, max(_BRIEF_S, last - since))


def _failed(task: asyncio.Task[Any]) -> bool:
    return task.cancelled() or task.exception() is not None


class RouteUnknown(NoRoute):
    """No name server knows the topic, but a broker that may have it is gone."""


async def route_of(cluster: Cluster, asking: Asking, topic: str) -> TopicRoute:
    """Return the route of a topic; masters that are gone and not in it are added to `Asking.missing`.

    Raises:
        RouteUnknown: no name server knows the topic, and a broker is gone.
        NoRoute: no name server knows the topic.
        ClientError: no name server answers.
    """
    try:
        route = await asking.needed(cluster.admin.route(topic))
    except NoRoute as problem:
        gone = await note_gone(cluster, asking)
        if not gone:
            raise
        raise RouteUnknown(f"{problem}; unknown: {', '.join(gone)} is {_GONE}") from problem
    await note_gone(cluster, asking, {each.name for each in route.brokers})
    return route


def readable_of(route: TopicRoute) -> dict[str, str]:
    """Return the addresses to ask about a topic: masters, or a slave of each missing master."""
    found = {broker.name: broker.readable() for broker in route.brokers}
    return {name: address for name, address in found.items() if address is not None}


async def readers_of(cluster: Cluster, asking: Asking) -> dict[str, str]:
    """Return `Cluster.readers`; how old the answers of slaves are is added to `Asking.missing`.

    Raises:
        ClientError: no name server answers.
    """
    readers = await asking.needed(cluster.readers())
    slaves = {
        name: cluster.shared(("slave", address), _AS_OF_AGE_S, partial(asked_slave, cluster.admin, name, address))
        for name, address in (await cluster.slaves_asked()).items()
    }
    for name, slave in (await asking.all(slaves, _AS_OF_SHARE)).items():
        asking.missing.append(Missing(name, "slave", slave.value.sentence))
    return readers


async def note_gone(cluster: Cluster, asking: Asking, but: set[str] | None = None) -> list[str]:
    """Add the masters that are gone to `Asking.missing`, but not *but*, and return their names."""
    gone = sorted((await asking.needed(cluster.gone())).keys() - (but or set()))
    known = {each.what for each in asking.missing}
    asking.missing += [Missing(name, "gone", _GONE) for name in gone if name not in known]
    return gone
