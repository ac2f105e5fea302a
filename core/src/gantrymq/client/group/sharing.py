"""Which queues are ours: what the allocation strategy gives us of every topic, taken and given up.

    every 20 s, and at once when a broker says that the members changed; after 0.2 s, 0.4 s and so on while something
    is missing

A queue that goes to another member is handed out no more; those in hand have half a second to be finished, then the
progress is stored. Who takes queues from others waits as long before it asks where they stopped; in orderly mode the
broker's lock says when.

Source: apache/rocketmq client/.../impl/consumer/RebalanceImpl.java, RebalancePushImpl.java, RebalanceService.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from gantrymq.client.credentials import AccessDenied
from gantrymq.client.group.held import IDLE_S, HeldQueue
from gantrymq.client.group.membership import Membership
from gantrymq.client.group.queue_locks import QueueLocks
from gantrymq.client.user_functions import called
from gantrymq.errors import BrokerRefused, ClientError, GantryError, NoRoute
from gantrymq.interfaces import AllocationStrategy
from gantrymq.loose_json import loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.clients import GetConsumerListByGroupRequest

__all__ = ["Sharing"]

logger = logging.getLogger("gantrymq.client")

T = TypeVar("T")

AGAIN_S: Final = 0.1  # twice that after a round in which something was missing, doubled with each one in a row
FINISH_S: Final = 0.5  # for messages in hand of a queue that goes
SETTLE_S: Final = 0.75  # until others have given up what we take from them
_PUT_OFF: Final = 20  # rounds in a row in which nothing is taken as the members changed meanwhile
FORCED_S: Final = 20.0  # since the last lock, after which a queue is given up whatever is in hand

Rebalanced = Callable[[tuple[MessageQueue, ...], tuple[MessageQueue, ...]], object]


class _Share(NamedTuple):
    """What a round found of one topic."""

    topic: str
    wanted: list[MessageQueue]  # ours, and not held
    others: bool  # whether the group has other members
    complete: bool  # whether all that is not ours was given up


class Sharing:
    """The rebalance of one member."""

    def __init__(
        self,
        member: Membership,
        strategy: AllocationStrategy | None,
        locks: QueueLocks,
        begin: Callable[[HeldQueue], object],
        changed: Callable[[tuple[MessageQueue, ...], tuple[MessageQueue, ...]], Awaitable[None]],
    ) -> None:
        """*begin* pulls a queue taken; *changed* hears of queues taken and given up.

        *strategy* may come later, as long as it is there before `run`.
        """
        self._member = member
        self.strategy = strategy
        self._locks = locks
        self._begin = begin
        self._changed = changed
        self._due = asyncio.Event()
        self._failing = 0  # rounds in a row in which something was missing
        self.balanced = asyncio.Event()  # set once every topic was shared out

    def wake(self) -> None:
        """Share out again soon."""
        self._due.set()

    async def run(self) -> None:
        """Share out until cancelled."""
        clock, period = self._member.instance.world.clock, self._member.settings.rebalance_every_s
        while True:
            self._due.clear()
            done = await self.balance()
            self._failing = 0 if done else self._failing + 1
            if done:
                self.balanced.set()
            if self._member.handing.refused is not None:
                self.balanced.set()  # nobody need wait for it
                return
            pause = period if done else min(period, AGAIN_S * 2 ** min(8, self._failing))
            timer = clock.call_later(pause, self._due.set)
            await self._due.wait()
            timer.cancel()

    async def balance(self) -> bool:
        """One round. False where a topic has no route, or queues could not be had yet."""
        if self._member.paused:
            return True
        member, taken, gone = self._member, list[MessageQueue](), list[MessageQueue]()
        found = await asyncio.gather(*(self._tried(topic, self._share(topic, gone)) for topic in member.subscriptions))
        stale = [queue for queue in member.held if queue.topic not in member.subscriptions]
        for queue in stale:
            await self.give_up(member.held[queue])
        shares = [share for share in found if share is not None]
        done = all(share is not None and share.complete for share in found)
        if await self._settled(shares):
            for share in shares:
                done &= not share.wanted or await self._tried(share.topic, self._take(share.wanted, taken)) is True
        else:
            done = False
        if taken or gone or stale:
            member.instance.heartbeat_now()
            await self._changed(tuple(taken), (*gone, *stale))
        return done

    async def _tried(self, topic: str, work: Awaitable[T]) -> T | None:
        """What *work* gives; None where it cannot be done now, which is logged."""
        try:
            return await work
        except NoRoute as problem:
            logger.debug("rebalance of %s: %s", self._member.group, problem)
        except GantryError as problem:
            if isinstance(problem, AccessDenied) and not self.balanced.is_set() and not self._member.held:
                self._member.handing.refuse(problem)  # it was never let in
            logger.warning("rebalance of %s, topic %s: %s", self._member.group, topic, problem)
        except Exception:  # such as of an allocation strategy; the next round tries again
            logger.exception("rebalance of %s, topic %s", self._member.group, topic)
        return None

    async def _share(self, topic: str, gone: list[MessageQueue]) -> _Share:
        """What of *topic* is ours; what is not is given up, all topics at once, as others wait for it."""
        member = self._member
        queues = sorted(await member.instance.routes.readable_queues(topic))
        others = False
        mine = set(queues)
        if not member.settings.broadcasting:
            ids = sorted(await self._members(topic, queues))
            if member.instance.client_id not in ids:  # its broker has not heard of us
                member.instance.heartbeat_now()
                return _Share(topic, [], False, False)
            others = len(set(ids)) > 1
            mine = self._allocated(queues, ids)
        now = member.instance.world.clock.monotonic()
        kept = [held for queue, held in member.held.items() if queue.topic == topic]
        going = [held for held in kept if held.queue not in mine]
        gave = await asyncio.gather(*(self.give_up(held) for held in going))
        gone += [held.queue for held, done in zip(going, gave, strict=True) if done]
        for held in kept:
            idle = now - held.pulled_s > IDLE_S and not (held.full or member.pausing(held.queue))
            if held.queue in mine and idle:
                logger.warning("%s was not pulled for %g s; it is taken anew", held.queue, IDLE_S)
                await self.give_up(held)
        return _Share(topic, [queue for queue in sorted(mine) if queue not in member.held], others, all(gave))

    async def _settled(self, shares: list[_Share]) -> bool:
        """Wait until others gave up what is to be taken from them. False: the members changed, or all stands still."""
        member = self._member
        if member.locking or not any(share.wanted and share.others for share in shares):
            return True
        await member.instance.world.clock.sleep(SETTLE_S)
        return not member.paused and not (self._due.is_set() and self._failing < _PUT_OFF)

    def _allocated(self, queues: list[MessageQueue], ids: list[str]) -> set[MessageQueue]:
        """Those of *queues* that are this member's; strategies see the names that all members see."""
        member = self._member
        instance = member.instance
        known_as = {
            MessageQueue(instance.wrapped(each.topic), each.broker_name, each.queue_id): each for each in queues
        }
        group = instance.wrapped(member.group)
        assert self.strategy is not None
        mine = called(self.strategy.allocate, group, instance.client_id, [*known_as], ids)
        return {known_as[queue] for queue in mine}

    async def _take(self, wanted: list[MessageQueue], taken: list[MessageQueue]) -> bool:
        member = self._member
        granted = await self._locks.lock(wanted) if member.locking else None
        begun = await asyncio.gather(
            *(self.take(queue) for queue in wanted if granted is None or queue in granted), return_exceptions=True
        )
        for queue in begun:
            if isinstance(queue, MessageQueue):
                taken.append(queue)
            elif not isinstance(queue, ClientError) or isinstance(queue, AccessDenied):
                raise queue
            else:
                logger.warning("where %s begins is not known: %s", member.group, queue)
        return all(queue in member.held for queue in wanted)

    async def take(self, queue: MessageQueue) -> MessageQueue:
        """Hold *queue* from now on, and begin to pull it. Raises ClientError: the brokers do not say where."""
        member = self._member
        offset = await self.first_offset(queue)
        held = HeldQueue(queue, offset, member.instance.world.clock.monotonic())
        if member.locking:
            held.locked_s = held.pulled_s
        member.held[queue] = held
        self._begin(held)
        return queue

    async def first_offset(self, queue: MessageQueue) -> int:
        """Where this group goes on in *queue*, or begins. Raises ClientError: the brokers do not say."""
        member, start = self._member, self._member.settings.consume_from
        stored = await member.progress.read(queue)
        if stored is not None and stored >= 0:
            return stored
        retries = queue.topic == member.retry_topic
        if start == "first" or (retries and start == "last"):
            return 0
        if start == "last" or retries:
            return await member.offsets.end(queue)
        return await member.offsets.at(queue, start)

    async def give_up(self, held: HeldQueue, *, grace_s: float = FINISH_S) -> bool:
        """Store the progress of a queue and forget it. False: a message in hand must be waited for (orderly)."""
        member = self._member
        held.drop()
        deadline = member.instance.world.clock.monotonic() + grace_s
        await self._finished(held, deadline)
        if member.locking and held.in_hand and not self._long_locked(held):
            held.unlock_tries += 1
            return False
        if member.held.get(held.queue) is held:
            del member.held[held.queue]
            if member.commits:
                await member.progress.store({held.queue: held.progress})
            if member.locking:
                await self._locks.unlock([held.queue])
        return True

    async def _finished(self, held: HeldQueue, deadline: float) -> None:
        clock = self._member.instance.world.clock
        while held.in_hand and (left := deadline - clock.monotonic()) > 0:
            held.room.clear()
            timer = clock.call_later(left, held.room.set)
            try:
                await held.room.wait()
            finally:
                timer.cancel()

    def _long_locked(self, held: HeldQueue) -> bool:
        now = self._member.instance.world.clock.monotonic()
        return held.locked_s is None or now - held.locked_s > FORCED_S

    async def _members(self, topic: str, queues: Iterable[MessageQueue]) -> list[str]:
        """Client ids of the group, as one of the topic's brokers knows them."""
        instance, group = self._member.instance, self._member.group
        names = sorted({queue.broker_name for queue in queues})
        name = names[instance.world.random.randrange(len(names))]
        address = await instance.routes.find_broker(topic, name, 0)
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            reply = await instance.rpc.ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.SYSTEM_ERROR:  # it does not know the group yet
                return []
            raise
        found = loads(reply.payload)
        return [str(each) for each in found.get("consumerIdList") or ()]
