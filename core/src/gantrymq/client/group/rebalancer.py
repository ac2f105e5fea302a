"""Rebalance: take and give up queues as the allocation strategy assigns them, topic by topic.

A round runs every 20 s, and at once when a broker reports changed members or is reconnected. Incomplete rounds are
repeated after 0.2 s, 0.4 s and so on, or every second while a broker is disconnected.

A queue that goes to another member is no longer delivered; in-flight messages have half a second to finish, then the
offset is stored. A member that takes queues from others waits that long before it reads their offsets; in orderly mode
it waits for the broker's lock instead.

A restarted broker knows no members. Each member registers again within a second or so. Until then:

- members that were known before count for `_MEMBER_RETURN_S` more, so that the first one back does not take all queues;
- a queue of the broker is *unconfirmed*: it is not pulled and its offset is not stored until a round has confirmed
  that it is still ours (and locked, in orderly mode). If another member has taken it meanwhile and stored a later
  offset, it is taken again from there.

Source: apache/rocketmq client/.../impl/consumer/RebalanceImpl.java, RebalancePushImpl.java, RebalanceService.java.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from gantrymq.client.calls.credentials import AccessDenied
from gantrymq.client.errors import FilterRefused
from gantrymq.client.group.membership import GroupMember
from gantrymq.client.group.process_queue import IDLE_S, ProcessQueue
from gantrymq.client.group.queue_locks import QueueLocks
from gantrymq.client.user_functions import call_function
from gantrymq.errors import BrokerRefused, ClientError, GantryError, NoRoute
from gantrymq.interfaces import AllocationStrategy
from gantrymq.loose_json import loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.clients import GetConsumerListByGroupRequest
from gantrymq.world import Timer
from gantrymq.world.clock import wait_set

logger = logging.getLogger("gantrymq.client")

T = TypeVar("T")

RETRY_S: Final = 0.1  # twice that after an incomplete round, doubled after each further one
_FINISH_S: Final = 0.5  # for in-flight messages of a queue that is given up
_RELEASE_WAIT_S: Final = 0.75  # until other members have given up the queues that we take
_REGAIN_WAIT_S: Final = 1.25  # the same for an unconfirmed queue; Java's members rebalance at most once a second
_MEMBER_RETURN_S: Final = 10.0  # for members to register again at a reconnected broker
MISSING_S: Final = 5.0  # without a route, before that is logged
_BROKER_AWAY_S: Final = 1.0  # between rounds while a broker is disconnected
_MAX_POSTPONED: Final = 20  # rounds in a row that take no queues because the members changed meanwhile
_FORCED_UNLOCK_S: Final = 20.0  # since the last lock; then a queue is given up despite in-flight messages


class _TopicAllocation(NamedTuple):
    """Result of one round for one topic."""

    topic: str
    to_take: list[MessageQueue]  # queues of this member that are not taken yet, or unconfirmed
    others: bool  # whether the group has other members
    complete: bool  # whether all queues of other members were given up


class Rebalancer:
    """Runs the rebalance of one member."""

    def __init__(
        self,
        member: GroupMember,
        locks: QueueLocks,
        start_pulling: Callable[[ProcessQueue], object],
        on_rebalanced: Callable[[tuple[MessageQueue, ...], tuple[MessageQueue, ...]], Awaitable[None]],
    ) -> None:
        """Create the rebalancer; set ``strategy``, the allocation strategy, before `run`.

        Args:
            member: the group member.
            locks: for orderly consumers.
            start_pulling: called with each queue taken.
            on_rebalanced: called with the queues taken and given up.
        """
        self._member = member
        self.strategy: AllocationStrategy | None = None
        self._locks = locks
        self._start_pulling = start_pulling
        self._on_rebalanced = on_rebalanced
        self._due = asyncio.Event()
        self._in_round = False
        self._connection_lost = False  # whether a connection was lost since the round began
        self._timer: Timer | None = None  # starts the next round
        self._failed_rounds = 0  # incomplete rounds in a row
        self._admitted = set[str]()  # topics of which all queues of this member were taken once
        self._missing: dict[str, float] = {}  # topics without a route: since when; `math.inf` if that was logged
        self._known_ids = frozenset[str]()  # client ids of the group in the last round
        self._lost = set[str]()  # names of brokers that were disconnected and are not back
        self._returning: dict[str, set[str]] = {}  # members that may register again, by broker name
        self._return_deadlines: dict[str, float] = {}  # until when they count, by broker name; set on reconnect
        self.balanced = asyncio.Event()  # set once every topic was rebalanced

    def wake(self) -> None:
        """Start a round soon."""
        self._due.set()

    def broker_lost(self, broker_name: str) -> None:
        """Mark the queues of a disconnected broker as unconfirmed until a round reaches it again."""
        member = self._member
        if member.settings.broadcasting:
            return
        for queue, pq in member.process_queues.items():
            if queue.broker_name == broker_name:
                pq.unconfirmed = True
                pq.locked_s = None
        self._connection_lost = True
        self._lost.add(broker_name)
        self._returning[broker_name] = set(self._known_ids) - {member.instance.client_id}
        self._return_deadlines.pop(broker_name, None)
        if not self._in_round:  # otherwise the end of the round schedules the next one
            self._sleep(_BROKER_AWAY_S)

    def broker_back(self, broker_name: str) -> None:
        """Start a round soon, unless one is running: that one may itself have made the connection.

        Queues that were confirmed meanwhile, by a slave, are confirmed again by the master: another member may have
        read them there.
        """
        self._failed_rounds = 0
        if broker_name in self._lost:
            self._lost.remove(broker_name)
            for queue, pq in self._member.process_queues.items():
                if queue.broker_name == broker_name and not pq.unconfirmed:
                    pq.unconfirmed = self._connection_lost = True
        if not self._in_round:
            self.wake()

    async def run(self) -> None:
        """Run rounds until cancelled."""
        clock, period = self._member.instance.world.clock, self._member.settings.rebalance_every_s
        while True:
            self._due.clear()
            self._in_round = True
            done = await self.rebalance()
            self._in_round = False
            self._failed_rounds = 0 if done else self._failed_rounds + 1
            if done:
                self.balanced.set()
            if self._member.deliveries.refused is not None:
                self.balanced.set()  # let `wait_balanced` raise it
                return
            pause = period if done else min(period, RETRY_S * 2 ** min(8, self._failed_rounds))
            if not self._member.paused and any(pq.unconfirmed for pq in self._member.process_queues.values()):
                pause = min(pause, _BROKER_AWAY_S)
            pause = min([pause, *(until - clock.monotonic() for until in self._return_deadlines.values())])
            self._sleep(pause)
            await self._due.wait()

    def _sleep(self, seconds: float) -> None:
        """Start the next round in *seconds*, unless `wake` starts it earlier."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._member.instance.world.clock.call_later(max(0.0, seconds), self._due.set)

    async def rebalance(self) -> bool:
        """Run one round. Return False if a topic has no route, or queues could not be taken yet."""
        now = self._member.instance.world.clock.monotonic()
        for name in [name for name, until in self._return_deadlines.items() if now >= until]:
            self._stop_waiting_for(name)
        if self._member.paused:
            return True
        self._connection_lost = False
        member, taken, given_up = self._member, list[MessageQueue](), list[MessageQueue]()
        found = await asyncio.gather(
            *(self._guarded(topic, self._allocate_topic(topic, given_up)) for topic in member.subscriptions)
        )
        stale = [queue for queue in member.process_queues if queue.topic not in member.subscriptions]
        for queue in stale:
            await self.give_up(member.process_queues[queue])
        allocations = [allocation for allocation in found if allocation is not None]
        done = all(allocation is not None and allocation.complete for allocation in found)
        if await self._wait_others_released(allocations):
            for topic, to_take, _, complete in allocations:
                if to_take:
                    complete &= await self._guarded(topic, self._take_queues(to_take, taken)) is True
                    done &= complete
                if complete:
                    self._admitted.add(topic)
        else:
            done = False
        if taken or given_up or stale:
            member.instance.registration.heartbeat_now()
            await self._on_rebalanced(tuple(taken), (*given_up, *stale))
        return done

    async def _guarded(self, topic: str, work: Awaitable[T]) -> T | None:
        """Return the result of *work*; None if it fails now, which is logged."""
        try:
            return await work
        except NoRoute as problem:
            self._log_missing(topic, problem)
        except GantryError as problem:
            admitted = self.balanced.is_set() or topic in self._admitted
            if isinstance(problem, AccessDenied | FilterRefused) and not admitted:
                self._member.deliveries.refuse(problem)
                return None
            self._member.instance.outages.failed(f"rebalance of {self._member.group}, topic {topic}", problem)
        except Exception:  # such as from an allocation strategy; the next round tries again
            logger.exception("rebalance of %s, topic %s", self._member.group, topic)
        return None

    def _log_missing(self, topic: str, problem: NoRoute) -> None:
        """Log once that a topic still has no route after `MISSING_S`: its name may be misspelt.

        A producer may create it meanwhile, and a broker that is away is logged as an outage.
        """
        member = self._member
        now = member.instance.world.clock.monotonic()
        since = self._missing.setdefault(topic, now)
        known = topic in self._admitted or topic == member.retry_topic or member.instance.outages.away
        if known or now - since < MISSING_S:
            logger.debug("rebalance of %s: %s", member.group, problem)
            return
        self._missing[topic] = math.inf
        logger.warning("group %s gets no messages of %s for now: %s", member.group, topic, problem)

    async def _allocate_topic(self, topic: str, given_up: list[MessageQueue]) -> _TopicAllocation:
        """Determine the queues of this member in *topic*, and give up the others.

        All topics give up their queues at the same time, because other members wait for them.
        """
        member = self._member
        queues = sorted(await member.instance.routes.readable_queues(topic))
        if topic not in self._admitted and (wanted := member.subscriptions.get(topic)) is not None:
            await member.pulls.filters.check_topic(wanted, queues)  # also if this member gets no queues
        others = False
        own = set(queues)
        if not member.settings.broadcasting:
            ids = sorted(await self._member_ids(topic, queues))
            if member.instance.client_id not in ids:  # the broker has not received our heartbeat
                member.instance.registration.heartbeat_now()
                return _TopicAllocation(topic, [], False, False)
            others = len(set(ids)) > 1
            own = self._allocated_queues(queues, ids)
        now = member.instance.world.clock.monotonic()
        current = [pq for queue, pq in member.process_queues.items() if queue.topic == topic]
        leaving = [pq for pq in current if pq.queue not in own or pq.unlock_tries]
        results = await asyncio.gather(*(self.give_up(pq) for pq in leaving))
        given_up += [pq.queue for pq, done in zip(leaving, results, strict=True) if done]
        for pq in current:
            idle = now - pq.last_pull_s > IDLE_S and not (pq.pull_blocked or member.is_paused(pq.queue))
            if pq.unconfirmed:
                pq.delivery_paused = True  # the broker is reconnected
            elif pq.queue in own and idle:
                logger.warning("%s was not pulled for %g s; it is taken again", pq.queue, IDLE_S)
                await self.give_up(pq)
        to_take = [
            queue for queue in sorted(own) if (again := member.process_queues.get(queue)) is None or again.unconfirmed
        ]
        return _TopicAllocation(topic, to_take, others, all(results))

    async def _wait_others_released(self, allocations: list[_TopicAllocation]) -> bool:
        """Wait until other members have given up the queues that this member takes.

        Return False if the members changed, a broker was lost, or the member is paused.
        """
        member = self._member
        if member.locking or not any(allocation.to_take and allocation.others for allocation in allocations):
            return not self._connection_lost
        regained = any(queue in member.process_queues for allocation in allocations for queue in allocation.to_take)
        await member.instance.world.clock.sleep(_REGAIN_WAIT_S if regained else _RELEASE_WAIT_S)
        return not (
            member.paused or self._connection_lost or (self._due.is_set() and self._failed_rounds < _MAX_POSTPONED)
        )

    def _allocated_queues(self, queues: list[MessageQueue], ids: list[str]) -> set[MessageQueue]:
        """Return the queues that the strategy assigns to this member.

        Strategies get names that include the namespace, as all members of the group do.
        """
        member = self._member
        instance = member.instance
        by_full_name = {
            MessageQueue(instance.wrap_name(each.topic), each.broker_name, each.queue_id): each for each in queues
        }
        group = instance.wrap_name(member.group)
        assert self.strategy is not None
        own = call_function(self.strategy.allocate, group, instance.client_id, [*by_full_name], ids)
        return {by_full_name[queue] for queue in own}

    async def _take_queues(self, to_take: list[MessageQueue], taken: list[MessageQueue]) -> bool:
        member = self._member
        granted = await self._locks.lock(to_take) if member.locking else None
        begun = await asyncio.gather(
            *(self._take_or_confirm(queue) for queue in to_take if granted is None or queue in granted),
            return_exceptions=True,
        )
        for queue in begun:
            if isinstance(queue, MessageQueue):
                taken.append(queue)
            elif queue is None:
                continue
            elif not isinstance(queue, ClientError) or isinstance(queue, AccessDenied):
                raise queue
            else:
                member.instance.outages.failed(f"reading the start offset of {member.group}", queue)
        return all((pq := member.process_queues.get(queue)) is not None and not pq.unconfirmed for queue in to_take)

    async def _take_or_confirm(self, queue: MessageQueue) -> MessageQueue | None:
        """Take *queue*, or confirm it if it is unconfirmed and no other member has taken it meanwhile.

        Return None if it was confirmed, or must wait for an in-flight message (orderly). Raises as `take_queue`.
        """
        member = self._member
        pq = member.process_queues.get(queue)
        if pq is None:
            return await self.take_queue(queue)
        stored = await member.offset_store.offset_of_other_member(queue)
        if pq.dropped or self._connection_lost:
            return None
        if stored is None:
            pq.confirm(member.instance.world.clock.monotonic())
            member.deliveries.offer(pq)
            return None
        logger.info("another member of %s continued at %d of %s during an outage", member.group, stored, queue)
        await self._wait_finished(pq, member.instance.world.clock.monotonic() + _FINISH_S)
        if pq.dropped or (member.locking and pq.in_flight_since):
            return None
        pq.drop()
        del member.process_queues[queue]
        return await self.take_queue(queue)

    async def take_queue(self, queue: MessageQueue) -> MessageQueue:
        """Create the process queue of *queue* and start to pull it.

        Raises:
            ClientError: the brokers do not return the start offset.
        """
        member = self._member
        offset = await self.first_offset(queue)
        pq = ProcessQueue(queue, offset, member.instance.world.clock.monotonic())
        pq.unconfirmed = self._connection_lost
        if member.locking:
            pq.locked_s = None if self._connection_lost else pq.last_pull_s
        member.process_queues[queue] = pq
        self._start_pulling(pq)
        return queue

    async def first_offset(self, queue: MessageQueue) -> int:
        """Return the stored offset of the group in *queue*, or the offset at which a new group begins.

        Raises:
            ClientError: the brokers do not return it.
        """
        member, start = self._member, self._member.settings.consume_from
        stored = await member.offset_store.read(queue)
        if stored is not None and stored >= 0:
            return stored
        retries = queue.topic == member.retry_topic
        if start == "first" or (retries and start == "last"):
            return 0
        if start == "last" or retries:
            return await member.offsets.max_offset(queue)
        return await member.offsets.offset_for_timestamp(queue, start)

    async def give_up(self, pq: ProcessQueue, *, grace_s: float = _FINISH_S) -> bool:
        """Store the offset of a queue and drop it. Return False if an in-flight message must finish first (orderly)."""
        member = self._member
        pq.drop()
        deadline = member.instance.world.clock.monotonic() + grace_s
        await self._wait_finished(pq, deadline)
        if member.locking and pq.in_flight_since and not self._lock_is_stale(pq):
            pq.unlock_tries += 1
            return False
        if member.process_queues.get(pq.queue) is pq:
            del member.process_queues[pq.queue]
            if member.auto_commit:
                await self.store(pq)
            if member.locking:
                await self._locks.unlock([pq.queue])
        return True

    async def store(self, pq: ProcessQueue) -> None:
        """Store the offset of a queue, unless it is unconfirmed and another member may have advanced further."""
        member = self._member
        if pq.unconfirmed:
            try:
                if member.locking or await member.offset_store.offset_of_other_member(pq.queue) is not None:
                    return
            except ClientError as problem:
                member.instance.outages.failed(f"storing offsets in {pq.queue.topic}", problem)
                return
        await member.offset_store.store({pq.queue: pq.commit_offset})

    async def _wait_finished(self, pq: ProcessQueue, deadline: float) -> None:
        clock = self._member.instance.world.clock
        while pq.in_flight_since and (left := deadline - clock.monotonic()) > 0:
            pq.changed.clear()
            await wait_set(clock, pq.changed, left)

    def _lock_is_stale(self, pq: ProcessQueue) -> bool:
        now = self._member.instance.world.clock.monotonic()
        return pq.locked_s is None or now - pq.locked_s > _FORCED_UNLOCK_S

    async def _member_ids(self, topic: str, queues: Iterable[MessageQueue]) -> list[str]:
        """Return the client ids of the group.

        These are the members that one broker of the topic knows, plus members expected to return to it.
        """
        instance, group = self._member.instance, self._member.group
        names = sorted({queue.broker_name for queue in queues})
        name = names[instance.world.random.randrange(len(names))]
        address = await instance.routes.find_broker(topic, name, 0)
        await instance.registration.ensure_registered(address)
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            reply = await instance.rpc.call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.SYSTEM_ERROR:  # the broker does not know the group yet
                return []
            raise
        found = loads(reply.payload)
        return self._with_returning(name, {str(each) for each in found.get("consumerIdList") or ()})

    def _with_returning(self, broker_name: str, ids: set[str]) -> list[str]:
        """Return *ids* of a broker, plus members known before it was disconnected, while they still count."""
        returning = self._returning.get(broker_name)
        if returning is None:
            for others in self._returning.values():
                others &= ids  # drop members that left meanwhile
        elif self._member.instance.client_id in ids:
            self._return_deadlines.setdefault(
                broker_name, self._member.instance.world.clock.monotonic() + _MEMBER_RETURN_S
            )
            returning -= ids
            ids |= returning
            if not returning:
                self._stop_waiting_for(broker_name)
        self._known_ids = frozenset(ids)
        return list(ids)

    def _stop_waiting_for(self, broker_name: str) -> None:
        self._returning.pop(broker_name, None)
        self._return_deadlines.pop(broker_name, None)
