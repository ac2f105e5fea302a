"""From append to acknowledgement: one batch a turn of the event loop, gates, publication, answers.

    submit ... submit   all sends that arrived in this turn, or in one read while one client sends by itself
      `- store.put      one append for all of them
           `- gates     synchronous flush, later replication; one wait serves every waiter
                `- store.publish   queue entries; visible to consumers from here on
                     `- listeners (waiting pulls, dispatchers), then the senders' answers

Nothing is visible before its gates have passed (RocketMQ's confirm offset): after a power cut no consumer has seen a
message that is gone. A message whose producer does not wait (WAIT=false) is answered after the append, and becomes
visible with the others.

Source: apache/rocketmq store/.../CommitLog.java (handleDiskFlushAndHA), DefaultMessageStore.java (ReputMessageService).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from gantrymq.errors import GantryError, ServiceNotAvailable, StoreError
from gantrymq.interfaces import DispatchEntry, Gate, MessageStore, PutResult, PutStatus, StoreMessage
from gantrymq.model.last_peer import LastPeer
from gantrymq.world import Clock, Timer

Done = Callable[[Sequence[PutResult], GantryError | None], None]
Published = Callable[[Sequence[DispatchEntry]], None]
Acknowledged = Callable[[int, float], None]

log = logging.getLogger(__name__)


class FlushTimeout(StoreError):
    """The messages are stored, but the gates took longer than ``syncFlushTimeout``."""

    response_code = 10  # FLUSH_DISK_TIMEOUT
    retriable = True


class _Waiter:
    """One submission between its append and its answer."""

    __slots__ = ("deadline", "done", "end", "results")

    def __init__(self, end: int, done: Done, results: Sequence[PutResult], deadline: float) -> None:
        self.end = end  # log offset behind the last record
        self.done: Done | None = done  # None once answered
        self.results = results
        self.deadline = deadline


class Pipeline:
    """Appends what is submitted and answers when it is acknowledged."""

    def __init__(self, store: MessageStore, gates: Sequence[Gate], clock: Clock, gate_timeout_s: float) -> None:
        """*gates* may be empty: then a message is acknowledged as soon as it is appended."""
        self._store = store
        self._gates = tuple(gates)
        self._clock = clock
        self._gate_timeout_s = gate_timeout_s
        self._loop = asyncio.get_running_loop()
        self._incoming: list[tuple[Sequence[StoreMessage], Done]] = []
        self._scheduled = False
        self._held = False
        self._source = LastPeer()  # of what was released
        self._waiters: deque[_Waiter] = deque()
        self._appended = 0  # log offset behind the newest record appended here
        self._published = 0
        self._pump: asyncio.Task[None] | None = None
        self._timer: Timer | None = None
        self._listeners: list[Published] = []
        self._answered: list[Callable[[], None]] = []
        self._timers: list[Acknowledged] = []
        self._timed: deque[tuple[int, int, float]] = deque()  # of each batch: end, messages, when it was appended
        self._closed = False

    def on_published(self, listener: Published) -> None:
        """Call *listener* with the new entries after each publication, before the senders are answered.

        What a listener raises is logged; the messages are stored, and their senders are told so.
        """
        self._listeners.append(listener)

    def on_answered(self, listener: Callable[[], None]) -> None:
        """Call *listener* each time the senders of a batch have been answered: their answers may leave together."""
        self._answered.append(listener)

    def on_acknowledged(self, listener: Acknowledged) -> None:
        """Call *listener* with messages and seconds since the append, once for each batch that passed its gates.

        Without a listener nothing is measured. What it raises is logged.
        """
        self._timers.append(listener)

    def submit(self, messages: Sequence[StoreMessage], done: Done) -> None:
        """Store *messages*; ``done(results, error)`` is called once, later.

        Each result says what became of its message. *error* is None, `FlushTimeout` (stored, not confirmed in time)
        or another error that struck after the append.

        Raises:
            ServiceNotAvailable: the broker is stopping.
        """
        if self._closed:
            raise ServiceNotAvailable("the broker is stopping; send to another broker or try again later")
        self._incoming.append((messages, done))
        if not self._held:
            self._schedule()

    def hold(self) -> None:
        """What is submitted from now on is appended after `release`."""
        self._held = True

    def release(self, source: object) -> None:
        """Append what was submitted since `hold`, which came from *source*.

        That is done at once if the messages before came from there too: a client that sends by itself need not wait
        for others. Where many take turns, theirs are gathered until the end of the loop's turn.
        """
        self._held = False
        if not self._incoming:
            return
        if self._source.is_repeat(source) and not self._scheduled:
            self._append()
        else:
            self._schedule()

    def append_now(self) -> None:
        """Append what was submitted, before the caller changes what it is checked against."""
        self._append()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._append)

    async def close(self) -> None:
        """Refuse further messages; wait until every waiting sender has its answer.

        A gate is waited for as long as for any send (``syncFlushTimeout``), and no longer.
        """
        self._closed = True
        self._append()
        if (pump := self._pump) is not None:
            given_up: asyncio.Future[None] = self._loop.create_future()
            timer = self._clock.call_later(self._gate_timeout_s, given_up.set_result, None)
            await asyncio.wait([pump, given_up], return_when=asyncio.FIRST_COMPLETED)
            timer.cancel()
            if not pump.done():
                pump.cancel()
                log.error("messages up to log offset %d are not shown: a gate did not let them pass", self._appended)
                self._answer(self._appended, FlushTimeout("stored, but not confirmed before the broker stopped"))
        if self._timer is not None:
            self._timer.cancel()

    # --- append -----------------------------------------------------------------------------------------------------

    def _append(self) -> None:
        self._scheduled = False
        incoming, self._incoming = self._incoming, []
        if not incoming:
            return
        if len(incoming) == 1:
            batch = incoming[0][0]
        else:
            batch = [message for messages, _ in incoming for message in messages]
        began = self._clock.monotonic() if self._timers else 0.0
        try:
            results = self._store.put(batch)
        except Exception as error:
            log.exception("the store failed to append %d messages", len(batch))
            problem = error if isinstance(error, GantryError) else StoreError(f"the store failed to append: {error}")
            for _, done in incoming:
                _answer(done, (), problem)
            return
        for result in reversed(results):
            if result.status is PutStatus.OK:
                self._appended = result.log_offset + result.size
                if self._timers:
                    self._timed.append((self._appended, len(batch), began))
                break
        if self._gates:
            self._wait_for_gates(incoming, results)
        else:
            unseen = self._published_problem()
            start = 0
            for messages, done in incoming:
                stop = start + len(messages)
                _answer(done, results[start:stop], unseen)
                start = stop
            self._have_answered()
            self._measure(self._appended)

    def _published_problem(self) -> GantryError | None:
        """Publish what was appended; why that failed (a full disk under the queues), None where it did not."""
        try:
            self._publish(self._appended)
        except GantryError as error:
            log.error("messages up to log offset %d cannot be shown to consumers: %s", self._appended, error)
            return error
        except Exception as error:
            log.exception("messages up to log offset %d cannot be shown to consumers", self._appended)
            return StoreError(f"the store failed to show the messages to consumers: {error}")
        return None

    # --- gates ------------------------------------------------------------------------------------------------------

    def _wait_for_gates(self, incoming: list[tuple[Sequence[StoreMessage], Done]], results: list[PutResult]) -> None:
        deadline = self._clock.monotonic() + self._gate_timeout_s
        start, answered = 0, False
        for messages, done in incoming:
            stop = start + len(messages)
            own = results[start:stop]
            start = stop
            last = next((result for result in reversed(own) if result.status is PutStatus.OK), None)
            if last is not None and messages[-1].wait_stored:
                self._waiters.append(_Waiter(last.log_offset + last.size, done, own, deadline))
            else:
                _answer(done, own, None)
                answered = True
        if answered:
            self._have_answered()
        if self._appended > self._published and self._pump is None:
            self._pump = self._loop.create_task(self._pass_gates())
            self._pump.add_done_callback(self._pump_ended)
        if self._waiters and self._timer is None:
            self._timer = self._clock.call_later(self._gate_timeout_s, self._answer_late)

    async def _pass_gates(self) -> None:
        try:
            while self._published < self._appended:
                target = self._appended
                try:
                    for gate in self._gates:
                        await gate.passed(target)
                except GantryError as error:
                    log.error("messages up to log offset %d cannot be acknowledged: %s", target, error)
                    self._answer(self._appended, error)
                    self._timed.clear()
                    return
                self._publish(target)
                self._answer(target, None)
                self._measure(target)
        finally:
            self._pump = None  # in this same step: an append before the task's own callback must start a new pump

    def _pump_ended(self, pump: asyncio.Task[None]) -> None:
        if not pump.cancelled() and (error := pump.exception()) is not None:
            log.error("the acknowledgement of messages failed", exc_info=error)
            self._answer(self._appended, StoreError(f"the acknowledgement failed: {error}"))
            self._timed.clear()

    def _answer(self, up_to: int, error: GantryError | None) -> None:
        waiters = self._waiters
        while waiters and waiters[0].end <= up_to:
            waiter = waiters.popleft()
            if waiter.done is not None:
                _answer(waiter.done, waiter.results, error)
        self._have_answered()

    def _have_answered(self) -> None:
        for listener in self._answered:
            listener()

    def _measure(self, up_to: int) -> None:
        timed = self._timed
        if not timed:
            return
        now = self._clock.monotonic()
        while timed and timed[0][0] <= up_to:
            _, messages, began = timed.popleft()
            for listener in self._timers:
                try:
                    listener(messages, now - began)
                except Exception:
                    log.exception("a listener failed on the time of %d messages", messages)

    def _answer_late(self) -> None:
        self._timer = None
        now = self._clock.monotonic()
        for waiter in self._waiters:
            if waiter.deadline > now:
                break
            if waiter.done is not None:
                done, waiter.done = waiter.done, None
                late = FlushTimeout("stored, but the disk did not confirm it in time (syncFlushTimeout)")
                _answer(done, waiter.results, late)
        pending = next((waiter.deadline for waiter in self._waiters if waiter.done is not None), None)
        if pending is not None:
            self._timer = self._clock.call_later(max(0.001, pending - now), self._answer_late)

    # --- publication ------------------------------------------------------------------------------------------------

    def _publish(self, up_to: int) -> None:
        entries = self._store.publish(up_to)
        self._published = up_to
        if entries:
            for listener in self._listeners:
                try:
                    listener(entries)
                except Exception:
                    log.exception("a listener failed on %d new messages", len(entries))


def _answer(done: Done, results: Sequence[PutResult], error: GantryError | None) -> None:
    """Call *done*; that one sender cannot be answered costs no other its answer."""
    try:
        done(results, error)
    except Exception:
        log.exception("the sender of %d messages could not be answered", len(results))
