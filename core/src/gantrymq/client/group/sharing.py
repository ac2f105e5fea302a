"""Which queues are ours: what the allocation strategy gives us of every topic, taken and given up.

    every 20 s, and at once when a broker says that the members changed, or is back; after 0.2 s, 0.4 s and so on while
    something is missing, each second while a broker is away

A queue that goes to another member is handed out no more; messages in hand have half a second to be finished, then the
progress is stored. A member that takes queues from others waits as long before it asks where they stopped; in orderly
mode the broker's lock says when.

A broker that starts again knows no members. Each comes back by itself, within a second or so, and until then:

- the members that were there before count for `RETURN_S` more, so that the first one back does not take all queues;
- a queue whose broker was away is *cut off*: not pulled, and its progress not stored, until a round has confirmed that
  it is ours (and its lock, in orderly mode). If another member has taken it meanwhile and stored a later offset, it is
  taken anew there.

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
from gantrymq.client.user_functions import call_function
from gantrymq.errors import BrokerRefused, ClientError, GantryError, NoRoute
from gantrymq.interfaces import AllocationStrategy
from gantrymq.loose_json import loads
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.headers.clients import GetConsumerListByGroupRequest
from gantrymq.world import Timer

__all__ = ["Sharing"]

logger = logging.getLogger("gantrymq.client")

T = TypeVar("T")

AGAIN_S: Final = 0.1  # twice that after a round in which something was missing, doubled with each one in a row
FINISH_S: Final = 0.5  # for messages in hand of a queue that goes
SETTLE_S: Final = 0.75  # until others have given up what we take from them
REGAIN_S: Final = 1.25  # the same for a queue that was cut off; Java's members rebalance once a second at most
RETURN_S: Final = 10.0  # for members to come back to a broker that was away
AWAY_S: Final = 1.0  # between rounds while a broker is away
_PUT_OFF: Final = 20  # rounds in a row in which nothing is taken as the members changed meanwhile
FORCED_S: Final = 20.0  # since the last lock, after which a queue is given up whatever is in hand

Rebalanced = Callable[[tuple[MessageQueue, ...], tuple[MessageQueue, ...]], object]


class _Share(NamedTuple):
    """What a round found of one topic."""

    topic: str
    wanted: list[MessageQueue]  # ours, and not held or cut off
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
        self._in_round = False
        self._lost = False  # whether a connection was lost since the round began
        self._timer: Timer | None = None  # begins the next round
        self._failing = 0  # rounds in a row in which something was missing
        self._present = frozenset[str]()  # client ids of the group, as of the last round
        self._awaited: dict[str, set[str]] = {}  # members that may come back to a broker that was away, by its name
        self._until: dict[str, float] = {}  # when they are waited for no more; since the broker is back
        self.balanced = asyncio.Event()  # set once every topic was shared out

    def wake(self) -> None:
        """Share out again soon."""
        self._due.set()

    def broker_lost(self, broker_name: str) -> None:
        """Cut off the queues of a broker whose connection was lost; the next round that reaches it confirms them."""
        member = self._member
        if member.settings.broadcasting:
            return
        for queue, held in member.held.items():
            if queue.broker_name == broker_name:
                held.cut_off = True
                held.locked_s = None
        self._lost = True
        self._awaited[broker_name] = set(self._present) - {member.instance.client_id}
        self._until.pop(broker_name, None)
        if not self._in_round:  # the end of a round looks itself
            self._sleep(AWAY_S)

    def broker_back(self) -> None:
        """Share out again soon; a round that goes on needs no other one, and may itself have made the connection."""
        self._failing = 0
        if not self._in_round:
            self.wake()

    async def run(self) -> None:
        """Share out until cancelled."""
        clock, period = self._member.instance.world.clock, self._member.settings.rebalance_every_s
        while True:
            self._due.clear()
            self._in_round = True
            done = await self.balance()
            self._in_round = False
            self._failing = 0 if done else self._failing + 1
            if done:
                self.balanced.set()
            if self._member.handing.refused is not None:
                self.balanced.set()  # nobody need wait for it
                return
            pause = period if done else min(period, AGAIN_S * 2 ** min(8, self._failing))
            if any(held.cut_off for held in self._member.held.values()):
                pause = min(pause, AWAY_S)
            pause = min([pause, *(until - clock.monotonic() for until in self._until.values())])
            self._sleep(pause)
            await self._due.wait()

    def _sleep(self, seconds: float) -> None:
        """Have the next round begin in *seconds*, unless something wakes it before."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._member.instance.world.clock.call_later(max(0.0, seconds), self._due.set)

    async def balance(self) -> bool:
        """One round. False where a topic has no route, or queues could not be had yet."""
        now = self._member.instance.world.clock.monotonic()
        for name in [name for name, until in self._until.items() if now >= until]:
            self._await_no_more(name)
        if self._member.paused:
            return True
        self._lost = False
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
            member.instance.registration.heartbeat_now()
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
            self._member.instance.outages.failed(f"rebalance of {self._member.group}, topic {topic}", problem)
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
                member.instance.registration.heartbeat_now()
                return _Share(topic, [], False, False)
            others = len(set(ids)) > 1
            mine = self._allocated(queues, ids)
        now = member.instance.world.clock.monotonic()
        kept = [held for queue, held in member.held.items() if queue.topic == topic]
        going = [held for held in kept if held.queue not in mine or held.unlock_tries]
        gave = await asyncio.gather(*(self.give_up(held) for held in going))
        gone += [held.queue for held, done in zip(going, gave, strict=True) if done]
        for held in kept:
            idle = now - held.pulled_s > IDLE_S and not (held.full or member.pausing(held.queue))
            if held.cut_off:
                held.halted = True  # its broker is back
            elif held.queue in mine and idle:
                logger.warning("%s was not pulled for %g s; it is taken anew", held.queue, IDLE_S)
                await self.give_up(held)
        wanted = [queue for queue in sorted(mine) if (again := member.held.get(queue)) is None or again.cut_off]
        return _Share(topic, wanted, others, all(gave))

    async def _settled(self, shares: list[_Share]) -> bool:
        """Wait until others gave up what is to be taken from them.

        False: the members changed, a broker was lost, or the member is paused.
        """
        member = self._member
        if member.locking or not any(share.wanted and share.others for share in shares):
            return not self._lost
        regained = any(queue in member.held for share in shares for queue in share.wanted)
        await member.instance.world.clock.sleep(REGAIN_S if regained else SETTLE_S)
        return not (member.paused or self._lost or (self._due.is_set() and self._failing < _PUT_OFF))

    def _allocated(self, queues: list[MessageQueue], ids: list[str]) -> set[MessageQueue]:
        """Those of *queues* that are this member's; strategies see the names that all members see."""
        member = self._member
        instance = member.instance
        known_as = {
            MessageQueue(instance.wrapped(each.topic), each.broker_name, each.queue_id): each for each in queues
        }
        group = instance.wrapped(member.group)
        assert self.strategy is not None
        mine = call_function(self.strategy.allocate, group, instance.client_id, [*known_as], ids)
        return {known_as[queue] for queue in mine}

    async def _take(self, wanted: list[MessageQueue], taken: list[MessageQueue]) -> bool:
        member = self._member
        granted = await self._locks.lock(wanted) if member.locking else None
        begun = await asyncio.gather(
            *(self._take_or_confirm(queue) for queue in wanted if granted is None or queue in granted),
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
                member.instance.outages.failed(f"asking where {member.group} begins", queue)
        return all((held := member.held.get(queue)) is not None and not held.cut_off for queue in wanted)

    async def _take_or_confirm(self, queue: MessageQueue) -> MessageQueue | None:
        """`take`, or go on with a queue that was cut off, unless another member has taken it meanwhile.

        Returns None for one that goes on, or must wait for a message in hand (orderly). Raises ClientError: as `take`.
        """
        member = self._member
        held = member.held.get(queue)
        if held is None:
            return await self.take(queue)
        moved = await member.progress.taken_over(queue)
        if held.dropped or self._lost:
            return None
        if moved is None:
            held.confirm(member.instance.world.clock.monotonic())
            member.handing.offer(held)
            return None
        logger.info("%s went on at %d of %s while its broker was away from here", member.group, moved, queue)
        await self._finished(held, member.instance.world.clock.monotonic() + FINISH_S)
        if held.dropped or (member.locking and held.in_hand):
            return None
        held.drop()
        del member.held[queue]
        return await self.take(queue)

    async def take(self, queue: MessageQueue) -> MessageQueue:
        """Hold *queue* from now on, and begin to pull it. Raises ClientError: the brokers do not say where."""
        member = self._member
        offset = await self.first_offset(queue)
        held = HeldQueue(queue, offset, member.instance.world.clock.monotonic())
        held.cut_off = self._lost
        if member.locking:
            held.locked_s = None if self._lost else held.pulled_s
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
            return await member.offsets.max_offset(queue)
        return await member.offsets.offset_for_timestamp(queue, start)

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
                await self.store(held)
            if member.locking:
                await self._locks.unlock([held.queue])
        return True

    async def store(self, held: HeldQueue) -> None:
        """Store the progress of a queue, unless it was cut off and another member may be beyond it by now."""
        member = self._member
        if held.cut_off:
            try:
                if member.locking or await member.progress.taken_over(held.queue) is not None:
                    return
            except ClientError as problem:
                member.instance.outages.failed(f"storing offsets in {held.queue.topic}", problem)
                return
        await member.progress.store({held.queue: held.progress})

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
        """Client ids of the group: those that one of the topic's brokers knows, and those that may come back to it."""
        instance, group = self._member.instance, self._member.group
        names = sorted({queue.broker_name for queue in queues})
        name = names[instance.world.random.randrange(len(names))]
        address = await instance.routes.find_broker(topic, name, 0)
        await instance.registration.ensure_registered(address)
        header = GetConsumerListByGroupRequest(consumer_group=group)
        try:
            reply = await instance.rpc.call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        except BrokerRefused as refusal:
            if refusal.response_code == ResponseCode.SYSTEM_ERROR:  # it does not know the group yet
                return []
            raise
        found = loads(reply.payload)
        return self._with_awaited(name, {str(each) for each in found.get("consumerIdList") or ()})

    def _with_awaited(self, broker_name: str, ids: set[str]) -> list[str]:
        """*ids* of a broker, and the members that it knew before it was away, for as long as they are waited for."""
        awaited = self._awaited.get(broker_name)
        if awaited is None:
            for others in self._awaited.values():
                others &= ids  # those that left meanwhile
        elif self._member.instance.client_id in ids:
            self._until.setdefault(broker_name, self._member.instance.world.clock.monotonic() + RETURN_S)
            awaited -= ids
            ids |= awaited
            if not awaited:
                self._await_no_more(broker_name)
        self._present = frozenset(ids)
        return list(ids)

    def _await_no_more(self, broker_name: str) -> None:
        self._awaited.pop(broker_name, None)
        self._until.pop(broker_name, None)
