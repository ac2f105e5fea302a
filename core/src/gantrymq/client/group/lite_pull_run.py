"""A lite pull consumer between its start and its end: queues assigned, what was polled last, places."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from gantrymq.client.group.handing import Handed
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.member_run import MemberRun
from gantrymq.client.group.settings import ConsumerSettings
from gantrymq.client.group.sharing import Rebalanced
from gantrymq.client.instance import ClientInstance
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome
from gantrymq.client.user_functions import notify
from gantrymq.errors import ClientError, GantryError
from gantrymq.interfaces import AllocationStrategy
from gantrymq.model.queue import MessageQueue
from gantrymq.model.subscription import Subscription

__all__ = ["LitePullRun"]

logger = logging.getLogger("gantrymq.client")

LOOK_S: Final = 30.0  # for changed queues of a topic, as Java has it

_Listener = Callable[[str, tuple[MessageQueue, ...]], object]


class LitePullRun(MemberRun):
    """Made at start, `begin`, used, `end`."""

    def __init__(
        self,
        instance: ClientInstance,
        group: str,
        settings: ConsumerSettings,
        subscriptions: dict[str, Subscription],
        *,
        auto_commit: bool,
        on_rebalance: Rebalanced | None,
        known_as: str,
        offsets_folder: str | None,
    ) -> None:
        """Arguments as `MemberRun` has them; *auto_commit* says whether the progress is stored by itself."""
        super().__init__(
            instance,
            group,
            settings,
            subscriptions,
            None,
            commits=auto_commit,
            on_rebalance=on_rebalance,
            known_as=known_as,
            offsets_folder=offsets_folder,
        )
        self.sharing_out = False  # whether it is a member of its group
        self.assigning = False  # whether queues were assigned
        self._polled: Handed | None = None  # what counts as consumed at the next poll
        self._polled_s = 0.0
        self.hooks: ConsumeHookCaller | None = None  # told of what is polled
        self._hooked: ConsumeContext | None = None  # of what was polled last
        self._stored: dict[MessageQueue, tuple[HeldQueue, int]] = {}  # by `commit`, while the queue is held
        self._pulls: dict[MessageQueue, asyncio.Task[None]] = {}
        self._watched: dict[str, tuple[tuple[MessageQueue, ...], list[_Listener]]] = {}
        self._jobs: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        """Start what runs by itself."""
        self._instance.registration.listeners.add(self)
        self._jobs.append(self._instance.job(self._look()))
        if self.member.commits:
            self._jobs.append(self._instance.job(self._store_again()))

    def share(self, strategy: AllocationStrategy) -> None:
        """Have queues shared out by *strategy* from now on."""
        self.sharing.strategy = strategy
        self.sharing_out = True
        self._answer(None)
        self._jobs.append(self._instance.job(self.sharing.run()))

    async def assign(self, queues: tuple[MessageQueue, ...], subscriptions: Mapping[str, Subscription]) -> None:
        """Hold *queues* and no others. Raises ClientError: where one begins is not known; then nothing changed."""
        member = self.member
        new = [queue for queue in queues if queue not in member.held]
        starts = await asyncio.gather(*map(self.sharing.first_offset, new))
        self.assigning = True
        await self.give_up([queue for queue in member.held if queue not in queues])
        member.subscriptions.clear()
        member.subscriptions.update(subscriptions)
        for queue, start in zip(new, starts, strict=True):
            if queue not in member.held:
                self._hold(queue, start)

    async def give_up(self, queues: Iterable[MessageQueue]) -> None:
        """Forget queues, their progress stored if it is by itself."""
        going = [self.member.held[queue] for queue in queues]
        await asyncio.gather(*(self.sharing.give_up(held, grace_s=0.0) for held in going))

    def assigned(self, queue: MessageQueue) -> HeldQueue:
        """What is held of *queue*. Raises ClientError: it is not assigned."""
        held = self.member.held.get(queue)
        if held is None or held.dropped:
            count = len(self.member.reached())
            raise ClientError(
                f"{queue} is not assigned to this consumer of {self.member.group}, which has {count} queues: look at "
                "'assignment', or call assign(), or wait_assigned() after subscribe()"
            )
        return held

    def restart(self, held: HeldQueue, offset: int) -> None:
        """Go on at *offset*: what waits is forgotten, and a pull that is under way counts no more."""
        held.drop()
        self._hold(held.queue, offset)

    # --- messages -----------------------------------------------------------------------------------------------------

    async def poll(self, most: int, timeout_s: float) -> tuple[ReceivedMessage, ...]:
        """Up to *most* messages of one queue; none once the time is over, or at the end."""
        self.done()
        handing = self.member.handing
        handed = handing.take_now(most) or await handing.take(most, timeout_s)
        if handed is None:
            if handing.refused is not None:
                raise handing.refused
            return ()
        self.done()  # of another task that polls
        self._polled, self._polled_s = handed, self._instance.world.clock.monotonic()
        if self.hooks is not None:
            self._hooked = self.hooks.before(handed.held.queue, handed.messages, batch=most > 1, in_task=True)
        return tuple(handed.messages)

    def done(self) -> None:
        """What was polled last is consumed."""
        handed, self._polled = self._polled, None
        if handed is not None:
            self._after(ConsumeOutcome.SUCCESS)
            now = self._instance.world.clock.monotonic()
            handed.held.consumed_s = now
            count = handed.held.finish(handed.messages)
            minute = self._figures.minute(handed.held.queue.topic, now)
            minute.done += count
            minute.spent_s += (now - self._polled_s) * count

    def _after(self, outcome: ConsumeOutcome) -> None:
        hooked, self._hooked = self._hooked, None
        if hooked is not None and self.hooks is not None:
            self.hooks.after(hooked, outcome)

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Store offsets. Raises ClientError: not all of them are."""
        if self.member.settings.broadcasting:
            await self.member.progress.store(offsets)
            return
        stored = await asyncio.gather(*(self._store(*each) for each in offsets.items()), return_exceptions=True)
        for problem in stored:
            if problem is not None:
                raise problem

    async def commit_reached(self) -> None:
        """Store the progress of all queues held, except those that another member went on with. Errors as `commit`."""
        member = self.member
        gone = []
        for queue, held in list(member.held.items()):
            if held.cut_off and await member.progress.taken_over(queue) is not None:
                gone.append(queue)
        await self.commit({queue: offset for queue, offset in member.reached().items() if queue not in gone})

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's stored offset in *queue*, None when it has none. Raises ClientError: it cannot be asked for."""
        member = self.member
        return await (member.progress.read if member.settings.broadcasting else member.offsets.committed)(queue)

    async def _store(self, queue: MessageQueue, offset: int) -> None:
        held = self.member.held.get(queue)
        if self._stored.get(queue) == (held, offset):
            return
        self.member.progress.sending(queue, offset)
        await self.member.offsets.commit(queue, offset)
        if held is not None:
            self._stored[queue] = held, offset

    def broker_lost(self, broker_name: str) -> None:
        """As `BrokerListener` promises."""
        super().broker_lost(broker_name)
        self._stored = {queue: at for queue, at in self._stored.items() if queue.broker_name != broker_name}

    def stop_handing_out(self) -> None:
        """Whoever polls gets nothing."""
        self.member.handing.close()

    async def end(self) -> None:
        """Stop; the progress is stored if it is by itself."""
        self.stop_handing_out()
        self._after(ConsumeOutcome.GIVEN_BACK)
        await self._stop((*self._jobs, *self._pulls.values()))

    # --- queues -------------------------------------------------------------------------------------------------------

    def _hold(self, queue: MessageQueue, offset: int) -> None:
        held = self.member.held[queue] = HeldQueue(queue, offset, self._instance.world.clock.monotonic())
        self._begin(held)

    def _begin(self, held: HeldQueue) -> None:
        before = self._pulls.get(held.queue)
        if before is not None and before is not asyncio.current_task():
            before.cancel()
        task = self._pulls[held.queue] = self._instance.job(self._pulling.run(held))
        task.add_done_callback(lambda done: self._pulled(held.queue, done))

    def _pulled(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        if self._pulls.get(queue) is task:
            del self._pulls[queue]

    def _moved(self, held: HeldQueue, offset: int) -> None:
        self._log_move(held, offset)
        self.restart(held, offset)

    # --- changed topics -----------------------------------------------------------------------------------------------

    def watch(self, topic: str, now: tuple[MessageQueue, ...], listener: _Listener) -> None:
        """Call *listener* when the queues of *topic* are not *now* any more."""
        self._watched.setdefault(topic, (now, []))[1].append(listener)

    async def _look(self) -> None:
        while True:
            await self._instance.world.clock.sleep(LOOK_S)
            for topic, (before, listeners) in list(self._watched.items()):
                try:
                    queues = await self._instance.routes.readable_queues(topic)
                except GantryError as problem:
                    self._instance.outages.failed(f"looking for changed queues of {topic}", problem)
                    continue
                if set(queues) != set(before):
                    self._watched[topic] = (queues, listeners)
                    for listener in listeners:
                        await notify(f"a listener of {self.member.group}", listener, topic, queues)
