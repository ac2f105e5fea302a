"""From messages in hand to progress: what is done, what failed, what was in hand for too long.

Source: apache/rocketmq client/.../impl/consumer/ConsumeMessageConcurrentlyService.java (processConsumeResult),
ProcessQueue.java (cleanExpiredMsg).
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Sequence
from typing import Final

from gantrymq.client.group.answers import Direct
from gantrymq.client.group.failing import Failing
from gantrymq.client.group.figures import Figures
from gantrymq.client.group.handing import Handed
from gantrymq.client.group.held import HeldQueue
from gantrymq.client.group.kept import Kept
from gantrymq.client.group.membership import Membership
from gantrymq.client.message import ReceivedMessage
from gantrymq.client.tracing.hook_calls import ConsumeHookCaller
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome

__all__ = ["Holder", "Working"]

_LOOKS: Final = 15  # in the time that a message may be in hand
_MOST_TIMED_OUT: Final = 16  # of one queue in one round, as Java has it


class Holder:
    """Who has messages in hand: a loop or a worker. `close` waits for those of other tasks."""

    in_task = True  # whether they are consumed in the task that takes them; hooks are told

    def __init__(self, working: Working) -> None:
        """It counts from now until `end`."""
        self._working = working
        self.task: asyncio.Task[object] | None = None
        self.handed: Handed | None = None
        working.holders.add(self)

    def end(self) -> None:
        """It takes nothing more; what it has goes back."""
        self.give_back()
        self._working.holders.discard(self)

    def took(self, handed: Handed) -> None:
        """It has messages."""
        self.task = asyncio.current_task(self._working.loop)
        self.handed = handed

    def done(self, count: int | None = None) -> None:
        """The first *count* of them are consumed, None for all; the rest is still in hand."""
        handed = self.handed
        if handed is None:
            return
        if count is None or count >= len(handed.messages):
            self._let_go()
            self._working.done(handed.held, handed.messages)
        else:
            self._working.done(handed.held, handed.messages[:count])
            self.handed = Handed(handed.held, handed.messages[count:])

    def keep(self, count: int) -> None:
        """The first *count* of them stay in hand; the others wait again, for anybody."""
        handed = self.handed
        if handed is not None and count < len(handed.messages):
            self.handed = Handed(handed.held, handed.messages[:count])
            self._working.give_back(Handed(handed.held, handed.messages[count:]))

    async def failed(self, level: int, error: BaseException | None = None) -> None:
        """They were not consumed; *error* is what was raised, if it was."""
        handed = self.handed
        if handed is not None:
            self._let_go()
            remark = None if error is None else f"{type(error).__name__}: {error}"
            try:
                await self._working.failed(handed.held, handed.messages, level, remark)
            except asyncio.CancelledError:
                self._working.give_back(handed)
                raise

    def give_back(self) -> None:
        """They wait again, for anybody."""
        handed = self.handed
        if handed is not None:
            self._let_go()
            self._working.give_back(handed)

    def working(self, closers: Container[object]) -> bool:
        """Whether a task other than *closers* has messages in hand."""
        task = self.task
        return self.handed is not None and task is not None and task not in closers and not task.done()

    def _let_go(self) -> None:
        self.handed = self.task = None
        if self._working.closing:
            self._working.let_go.set()


class _HookedHolder(Holder):
    """One whose hooks are told."""

    def __init__(self, working: Working, hooks: ConsumeHookCaller, *, batch: bool) -> None:
        self._hooks = hooks
        self._batch = batch
        self._context: ConsumeContext | None = None
        super().__init__(working)

    def took(self, handed: Handed) -> None:
        super().took(handed)
        queue, messages = handed.held.queue, handed.messages
        self._context = self._hooks.before(queue, messages, batch=self._batch, in_task=self.in_task)

    def done(self, count: int | None = None) -> None:
        context, handed = self._context, self.handed
        if context is not None and handed is not None:
            if count is None or count >= len(handed.messages):
                self._after(ConsumeOutcome.SUCCESS)
            else:
                context.consumed += count
        super().done(count)

    async def failed(self, level: int, error: BaseException | None = None) -> None:
        self._after(ConsumeOutcome.FAILED if error is None else ConsumeOutcome.EXCEPTION, error)
        await super().failed(level, error)

    def give_back(self) -> None:
        self._after(ConsumeOutcome.GIVEN_BACK)
        super().give_back()

    def _after(self, outcome: ConsumeOutcome, error: BaseException | None = None) -> None:
        context, self._context = self._context, None
        if context is not None:
            self._hooks.after(context, outcome, error)


class Working:
    """Belongs to one member."""

    def __init__(
        self,
        member: Membership,
        failing: Failing,
        figures: Figures,
        directs: dict[int, Direct],
        hooks: ConsumeHookCaller | None = None,
    ) -> None:
        """*directs* are the messages that tools have consumed here."""
        self.kept = Kept(member, hooks)
        self._member = member
        self._failing = failing
        self._figures = figures
        self._directs = directs
        self._hooks = hooks
        self._clock = member.instance.world.clock
        self.loop = asyncio.get_running_loop()
        self.holders: set[Holder] = set()
        self.closing = False  # whether somebody waits for holders
        self.let_go = asyncio.Event()  # set then, whenever one has nothing in hand any more

    @property
    def hooked(self) -> bool:
        """Whether there are hooks that are told of messages."""
        return self._hooks is not None

    def holder(self, *, batch: bool) -> Holder:
        """A new one; *batch* says that it takes several messages at a time."""
        return Holder(self) if self._hooks is None else _HookedHolder(self, self._hooks, batch=batch)

    def done(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> int:
        """Messages of *held* are consumed. Returns how many of them were not finished before."""
        now = self._clock.monotonic()
        since = held.in_hand.get(messages[0].queue_offset, now)
        count = held.finish(messages)
        held.consumed_s = now
        minute = held.minute
        if now >= minute.ends_s:
            minute = held.minute = self._figures.minute(held.queue.topic, now)
        minute.done += count
        minute.spent_s += (now - since) * count
        if self._directs:
            self._tell(held, "CR_SUCCESS", None)
        if held.waiting and not held.ready:
            self._member.handing.offer(held)
        return count

    async def failed(
        self, held: HeldQueue, messages: Sequence[ReceivedMessage], level: int, remark: str | None = None
    ) -> None:
        """Messages of *held* were not consumed."""
        if id(held) in self._directs:
            self._tell(held, "CR_THROW_EXCEPTION" if remark else "CR_LATER", remark)
            return
        now = self._clock.monotonic()
        since = held.in_hand.get(messages[0].queue_offset, now)
        minute = self._figures.minute(held.queue.topic, now)
        minute.failed += len(messages)
        minute.spent_s += (now - since) * len(messages)
        for message in messages:
            await self._failing.failed(held, message, level)

    def give_back(self, handed: Handed) -> None:
        """Messages in hand wait again."""
        handed.held.give_back(handed.messages)
        handed.held.room.set()
        self._member.handing.offer(handed.held)

    async def all_let_go(self, closers: Container[object]) -> None:
        """Wait until no task but *closers* has messages in hand; tasks that ended have none."""
        self.closing = True
        while any(holder.working(closers) for holder in self.holders):
            self.let_go.clear()
            await self.let_go.wait()

    async def watch(self) -> None:
        """Send back what was in hand for too long, until cancelled; nothing in orderly mode."""
        limit_s = self._member.settings.consume_timeout_s
        while True:
            await self._clock.sleep(limit_s / _LOOKS)
            for held in list(self._member.held.values()):
                late = [at for at, since in held.in_hand.items() if self._clock.monotonic() - since >= limit_s]
                for offset in sorted(late)[:_MOST_TIMED_OUT]:
                    if (message := self._held_by(held, offset)) is not None:
                        await self._failing.timed_out(held, message)
                    elif (message := self.kept.at(held, offset)) is not None:
                        await self._kept_too_long(held, message)

    async def _kept_too_long(self, held: HeldQueue, message: ReceivedMessage) -> None:
        self.kept.take(message)  # meanwhile it can be neither acknowledged nor sent back a second time
        await self._failing.timed_out(held, message)
        if held.holds(message):
            self.kept.put_back(held, message)
        else:
            self.kept.settled(message, ConsumeOutcome.GIVEN_BACK)

    def _held_by(self, held: HeldQueue, offset: int) -> ReceivedMessage | None:
        for holder in self.holders:
            if holder.handed is not None and holder.handed.held is held:
                for message in holder.handed.messages:
                    if message.queue_offset == offset:
                        return message
        return None

    def _tell(self, held: HeldQueue, result: str, remark: str | None) -> None:
        direct = self._directs.get(id(held))
        if direct is not None and not direct.result.done():
            direct.result.set_result((result, remark))
