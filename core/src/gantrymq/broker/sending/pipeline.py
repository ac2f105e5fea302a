"""From append to acknowledgement: one batch per loop iteration, gates, publication, responses.

    submit ... submit   all sends of this loop iteration, or of one read while only one client sends
      `- store.put      one append for all of them
           `- gates     synchronous flush, later replication; one wait for all waiters
                `- store.publish   queue entries; makes the messages visible to consumers
                     `- listeners (waiting pulls, dispatchers), then the responses to the senders

A single send, while none waits for a gate, may have its sync on the event loop (`SyncFlushGate.pass_now`): handing it
to a thread takes as long as a quick sync. Several sends share a sync in a thread, while the loop appends the next ones.

Messages become visible only after their gates have passed (RocketMQ's confirm offset), so that no consumer sees a
message that a power failure then loses. A message with WAIT=false is acknowledged after the append, and becomes visible
with the others.

Source: apache/rocketmq store/.../CommitLog.java (handleDiskFlushAndHA), DefaultMessageStore.java (ReputMessageService).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from gantrymq.errors import FlushDiskTimeout, GantryError, ServiceNotAvailable, StoreError, Unconfirmed
from gantrymq.interfaces import DispatchEntry, Gate, MessageBatch, MessageStore, PutResult, PutStatus, StoreMessage
from gantrymq.model.last_peer import LastPeer
from gantrymq.world import Clock, Timer

Done = Callable[[Sequence[PutResult], GantryError | None], None]
Published = Callable[[Sequence[DispatchEntry]], None]
Acknowledged = Callable[[int, float], None]
_Submission = tuple[Sequence[StoreMessage], Done]

SINGLE_SENDS: Final = 8  # consecutive reads with one send each, all of one client, after which it counts as alone

log = logging.getLogger(__name__)


class _Waiter:
    """A submission between append and response."""

    __slots__ = ("appended_at", "done", "end", "results")

    def __init__(self, end: int, done: Done, results: Sequence[PutResult], appended_at: float) -> None:
        self.end = end  # log offset after the last record
        self.done: Done | None = done  # None after the response
        self.results = results
        self.appended_at = appended_at  # monotonic seconds


class _Passage:
    """What was appended at one moment, on its way through the gates."""

    __slots__ = ("error", "place", "target", "truncations", "unconfirmed", "waits")

    def __init__(self, target: int, truncations: int) -> None:
        self.target = target  # log offset
        self.truncations = truncations  # the pipeline's, when it began
        self.place = 0  # of the next gate
        self.waits = False  # for the answer of a gate
        self.unconfirmed: Unconfirmed | None = None
        self.error: Exception | None = None


class Pipeline:
    """Appends submitted messages and acknowledges them."""

    def __init__(self, store: MessageStore, gates: Sequence[Gate], clock: Clock, gate_timeout_s: float) -> None:
        """With empty *gates*, messages are acknowledged as soon as they are appended."""
        self._store = store
        self._gates = tuple(gates)
        self._last_looks = tuple(each.last_look for each in gates if hasattr(each, "last_look"))
        self._clock = clock
        self._gate_timeout_s = gate_timeout_s
        only = self._gates[0] if len(self._gates) == 1 else None  # replicas must get the bytes before the sync ends
        self._pass_now: Callable[..., bool] | None = getattr(only, "pass_now", None)
        self._loop = asyncio.get_running_loop()
        self._incoming: list[tuple[Sequence[StoreMessage], Done]] = []
        self._scheduled = False
        self._held = False
        self._source = LastPeer()  # source of the last release
        self._single_send = False  # the newest append was of one message or batch, while no gate was waited for
        self._single_sends = 0  # consecutive releases of a single send each, of one source
        self._waiters: deque[_Waiter] = deque()
        self._appended = 0  # log offset after the newest record
        self._published = 0
        self._truncations = 0
        self._raw_waits = False  # appended to the raw log, and to be published soon
        self._asks = tuple(map(_ask_of, gates))
        self._passage: _Passage | None = None
        self._passes = False  # `_pass_gates` runs
        self._gate: Gate | None = None  # the one that is waited for
        self._all_passed: asyncio.Future[None] | None = None  # set if something waits for the end of all passages
        self._timer: Timer | None = None
        self._listeners: list[Published] = []
        self._answered: list[Callable[[], None]] = []
        self._passed: list[Callable[[], None]] = []
        self._append_listeners: dict[Callable[[int], None], None] = {}
        self._timers: dict[Acknowledged, None] = {}
        self._timed: deque[tuple[int, int, float]] = deque()  # for each batch: end, messages, time of the append
        self._closed = False

    @property
    def has_gates(self) -> bool:
        """Whether messages wait for a gate after the append."""
        return bool(self._gates)

    def on_published(self, listener: Published) -> None:
        """Call *listener* with the new entries after each publication, before the responses to the senders.

        Exceptions are logged; the messages are acknowledged anyway, because they are stored.
        """
        self._listeners.append(listener)

    def on_answered(self, listener: Callable[[], None]) -> None:
        """Call *listener* after the responses to the senders of a batch, so that these can be flushed together."""
        self._answered.append(listener)

    def on_passed(self, listener: Callable[[], None]) -> None:
        """Call *listener*, which raises nothing, when no gate is waited for any more."""
        self._passed.append(listener)

    def few_wait_for_disk(self, most: int) -> bool:
        """Return whether senders, at most *most*, wait for a sync, and for nothing else."""
        passage = self._passage
        return passage is not None and passage.waits and self._pass_now is not None and 0 < len(self._waiters) <= most

    def on_appended(self, listener: Callable[[int], None]) -> Callable[[], None]:
        """Call *listener*, which raises nothing, with the end of the log after each append. Return its removal."""
        self._append_listeners[listener] = None
        return lambda: self._append_listeners.pop(listener, None)

    def on_acknowledged(self, listener: Acknowledged) -> Callable[[], None]:
        """Call *listener* with number of messages and seconds since the append, for each batch that passed its gates.

        Without a listener no time is measured. Exceptions are logged. Return a function that removes it.
        """
        self._timers[listener] = None
        return lambda: self._timers.pop(listener, None)

    def submit(self, messages: Sequence[StoreMessage], done: Done) -> None:
        """Store *messages* and call ``done(results, error)`` once, later.

        There is one result per message. *error* is None, `Unconfirmed` (stored, but not confirmed in time) or another
        error that occurred after the append.

        Raises:
            ServiceNotAvailable: the broker is stopping.
        """
        if self._closed:
            raise ServiceNotAvailable("the broker is stopping; send to another broker or try again later")
        self._incoming.append((messages, done))
        if not self._held:
            self._schedule()

    def hold(self) -> None:
        """Defer appends until `release`."""
        self._held = True

    def release(self, source: object) -> None:
        """Append the messages submitted since `hold` by *source*.

        If the previous messages came from the same source, append immediately: a single sending client must not wait
        for others. With several clients, collect their messages until the end of the loop iteration.
        """
        self._held = False
        if not self._incoming:
            self._single_sends = 0
            return
        if self._source.is_repeat(source) and not self._scheduled:
            self._single_sends = self._single_sends + 1 if self._is_single_send() else 0
            self._append()
        else:
            self._schedule()

    def _is_single_send(self) -> bool:
        """Return whether one message or batch was submitted, none waits for a gate, and the gate can pass at once."""
        if self._pass_now is None or len(self._incoming) > 1 or self._passage is not None:
            return False
        messages = self._incoming[0][0]
        return type(messages) is MessageBatch or len(messages) < 2 or messages[1].same_file_as_previous

    def append_now(self) -> None:
        """Append submitted messages before the caller changes the tables that they were checked against."""
        self._append()

    async def all_published(self) -> bool:
        """Wait until everything appended is published, for the time limit of gates at most; return whether it is."""
        self._publish_raw()
        await self._passed_in_time()
        return self._published >= self._appended

    async def _passed_in_time(self) -> None:
        """Wait until no gate is waited for, for the time limit of gates at most."""
        if self._passage is None:
            return
        if self._all_passed is None:
            self._all_passed = self._loop.create_future()
        given_up: asyncio.Future[None] = self._loop.create_future()
        timer = self._clock.call_later(self._gate_timeout_s, given_up.set_result, None)
        await asyncio.wait([self._all_passed, given_up], return_when=asyncio.FIRST_COMPLETED)
        timer.cancel()

    # --- changes of the raw log -------------------------------------------------------------------------------------

    def appended_raw(self, log_end: int) -> None:
        """Take records that were appended to the raw log up to *log_end* through the gates, and publish them.

        They are published in the next iteration of the loop at the earliest, because a slave acknowledges them first.
        """
        self._appended = log_end
        for listener in self._append_listeners:
            listener(log_end)
        if not self._raw_waits:
            self._raw_waits = True
            self._loop.call_soon(self._publish_raw)

    def _publish_raw(self) -> None:
        if self._raw_waits:
            self._raw_waits = False
            if self._gates:
                self._start_passage()
            else:
                self._published_problem()

    def limit_moved(self) -> None:
        """Publish messages that passed their gates and were above the visibility limit of the raw log."""
        if self._published:
            self._publish(self._published)

    def truncated(self, log_offset: int) -> None:
        """Fail the sends whose messages at or after *log_offset* were removed from the log."""
        self._truncations += 1  # gates that are being waited for must not confirm later messages
        self._appended, self._published = min(self._appended, log_offset), min(self._published, log_offset)
        self._timed = deque(each for each in self._timed if each[0] <= log_offset)
        removed = [waiter for waiter in self._waiters if waiter.end > log_offset]
        self._waiters = deque(waiter for waiter in self._waiters if waiter.end <= log_offset)
        for waiter in removed:
            if waiter.done is not None:
                _answer(waiter.done, waiter.results, StoreError("the message was removed: the log was truncated"))
        self._have_answered()

    def _schedule(self) -> None:
        self._single_sends = 0
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._append)

    async def close(self) -> None:
        """Refuse further messages and wait for the responses to all waiting senders.

        The time limit for gates is the same as for sends (``syncFlushTimeout``).
        """
        self._closed = True
        self._publish_raw()
        self._append()
        await self._passed_in_time()
        if self._passage is not None:
            self._passage = None
            log.error("messages up to log offset %d stay invisible: a gate did not pass", self._appended)
            self._answer(self._appended, FlushDiskTimeout("stored, but not confirmed before the broker stopped"))
        for ask in self._asks:
            if isinstance(ask, _TaskAsk):
                ask.cancel()
        if self._timer is not None:
            self._timer.cancel()

    # --- append -----------------------------------------------------------------------------------------------------

    def _append(self) -> None:
        self._scheduled = False
        if not self._incoming:
            return
        self._single_send = self._is_single_send()
        incoming, self._incoming = self._incoming, []
        began = self._clock.monotonic() if self._timers else 0.0
        incoming, results = self._put(incoming)
        if not incoming:
            return
        for result in reversed(results):
            if result.status is PutStatus.OK:
                self._appended = result.log_offset + result.size
                if self._timers:
                    self._timed.append((self._appended, len(results), began))
                for listener in self._append_listeners:
                    listener(self._appended)
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

    def _put(self, incoming: list[_Submission]) -> tuple[list[_Submission], list[PutResult]]:
        """Append messages with one call of the store, and each `MessageBatch` with its own.

        Returns:
            The submissions that the store took, and the result of each of their messages. The others are answered.
        """
        parts = [incoming]
        if len(incoming) > 1 and MessageBatch in {type(messages) for messages, _ in incoming}:
            parts = []
            for is_batch, group in groupby(incoming, _is_batch):
                part = list(group)
                parts += [[each] for each in part] if is_batch else [part]
        taken: list[_Submission] = []
        results: list[PutResult] = []
        for part in parts:
            batch = part[0][0] if len(part) == 1 else [message for messages, _ in part for message in messages]
            try:
                stored = self._store.put(batch)
            except Exception as error:
                log.exception("the store failed to append %d messages", len(batch))
                problem = (
                    error if isinstance(error, GantryError) else StoreError(f"the store failed to append: {error}")
                )
                for _, done in part:
                    _answer(done, (), problem)
            else:
                taken += part
                results += stored
        return taken, results

    def _published_problem(self) -> GantryError | None:
        """Publish the appended messages. Return the error if that fails, for example on a full disk."""
        try:
            self._publish(self._appended)
        except GantryError as error:
            log.error("messages up to log offset %d cannot be made visible to consumers: %s", self._appended, error)
            return error
        except Exception as error:
            log.exception("messages up to log offset %d cannot be made visible to consumers", self._appended)
            return StoreError(f"the store failed to make the messages visible to consumers: {error}")
        return None

    # --- gates ------------------------------------------------------------------------------------------------------

    def _wait_for_gates(self, incoming: list[tuple[Sequence[StoreMessage], Done]], results: list[PutResult]) -> None:
        now = self._clock.monotonic()
        start, answered = 0, False
        for messages, done in incoming:
            stop = start + len(messages)
            own = results[start:stop]
            start = stop
            last = next((result for result in reversed(own) if result.status is PutStatus.OK), None)
            if last is not None and _waits_stored(messages):
                self._waiters.append(_Waiter(last.log_offset + last.size, done, own, now))
            else:
                _answer(done, own, None)
                answered = True
        if answered:
            self._have_answered()
        self._start_passage()
        if self._waiters and self._timer is None:
            self._timer = self._clock.call_later(self._first_late_s(), self._answer_late)

    def _first_late_s(self) -> float:
        """Return the time after which the least patient gate is late."""
        return min(map(self._late_s, self._gates))

    def _late_s(self, gate: Gate | None) -> float:
        late_s = getattr(gate, "late_s", None)
        return self._gate_timeout_s if late_s is None else min(float(late_s), self._gate_timeout_s)

    def _start_passage(self) -> None:
        if self._passage is None and self._appended > self._published:
            self._passage = _Passage(self._appended, self._truncations)
            self._pass_gates()

    def _pass_gates(self) -> None:
        """Ask the gates one after the other, until one answers later or everything is published."""
        if self._passes:
            return
        self._passes = True
        try:
            while (passage := self._passage) is not None and not passage.waits:
                if (
                    passage.truncations != self._truncations
                    or passage.error is not None
                    or passage.place == len(self._asks)
                ):
                    self._end_passage(passage)
                else:
                    self._ask_next(passage)
        finally:
            self._passes = False

    def _ask_next(self, passage: _Passage) -> None:
        self._gate, ask = self._gates[passage.place], self._asks[passage.place]
        passage.place += 1
        passage.waits = True
        answer = partial(self._gate_answered, passage)
        try:
            single, self._single_send = self._single_send, False
            if single and self._passes_now(passage.target):
                answer(None)
            else:
                ask(passage.target, answer)
        except Exception as error:
            answer(error)
        except asyncio.CancelledError:
            answer(StoreError("a gate was cancelled"))

    def _passes_now(self, target: int) -> bool:
        return self._pass_now is not None and self._pass_now(target, alone=self._single_sends >= SINGLE_SENDS)

    def _gate_answered(self, passage: _Passage, error: Exception | None) -> None:
        if passage is not self._passage or not passage.waits:
            return
        passage.waits = False
        if isinstance(error, Unconfirmed):
            passage.unconfirmed = passage.unconfirmed or error
        else:
            passage.error = error
        self._pass_gates()

    def _end_passage(self, passage: _Passage) -> None:
        """Publish and answer, and begin the next one; after a truncation only the latter."""
        self._gate = None
        failed = False
        if passage.truncations == self._truncations:
            try:
                if passage.error is not None:
                    raise passage.error
                self._publish(passage.target)
                unconfirmed = passage.unconfirmed
                for look in self._last_looks:
                    unconfirmed = unconfirmed or look(passage.target)
                self._answer(passage.target, unconfirmed)
                self._measure(passage.target)
            except GantryError as error:
                log.error("messages up to log offset %d cannot be acknowledged: %s", passage.target, error)
                self._answer(self._appended, error)
                failed = True
            except (Exception, asyncio.CancelledError) as error:
                log.exception("the acknowledgement of messages failed")
                self._answer(self._appended, StoreError(f"the acknowledgement failed: {error}"))
                failed = True
        if failed:
            self._timed.clear()
        if failed or self._published >= self._appended:
            self._passage = None
            for listener in self._passed:
                listener()
            if self._all_passed is not None:
                self._all_passed.set_result(None)
                self._all_passed = None
        else:
            self._passage = _Passage(self._appended, self._truncations)

    def _answer(self, up_to: int, error: GantryError | None) -> None:
        waiters = self._waiters
        while waiters and waiters[0].end <= up_to:
            waiter = waiters.popleft()
            if waiter.done is not None:
                _answer(waiter.done, waiter.results, error)
        self._have_answered()

    def _have_answered(self) -> None:
        for listener in self._answered:
            try:
                listener()
            except Exception:
                log.exception("a listener failed after an answer")

    def _measure(self, up_to: int) -> None:
        timed = self._timed
        if not timed:
            return
        now = self._clock.monotonic()
        while timed and timed[0][0] <= up_to:
            _, messages, began = timed.popleft()
            for listener in tuple(self._timers):
                try:
                    listener(messages, now - began)
                except Exception:
                    log.exception("a listener failed on the time of %d messages", messages)

    def _answer_late(self) -> None:
        self._timer = None
        now, late_s = self._clock.monotonic(), self._late_s(self._gate)
        for waiter in self._waiters:
            if waiter.appended_at + late_s > now:
                break
            if waiter.done is not None:
                done, waiter.done = waiter.done, None
                _answer(done, waiter.results, self._late())
        pending = next((waiter.appended_at for waiter in self._waiters if waiter.done is not None), None)
        if pending is not None:
            first, last = (pending + each - now for each in (self._first_late_s(), late_s))
            self._timer = self._clock.call_later(max(0.001, first if first > 0 else last), self._answer_late)

    def _late(self) -> Unconfirmed:
        kind: type[Unconfirmed] = getattr(self._gate, "late_error", FlushDiskTimeout)
        which = self._gate.name if kind.of_replicas and self._gate is not None else "the disk"
        limit = " (syncFlushTimeout)" if getattr(self._gate, "late_s", None) is None else ""
        return kind(f"stored, but {which} did not confirm it in time{limit}")

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


class _TaskAsk:
    """`Gate.ask` of a gate that has only `Gate.passed`."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._task: asyncio.Future[None] | None = None

    def __call__(self, log_offset: int, answer: Callable[[Exception | None], object]) -> None:
        self._task = task = asyncio.ensure_future(self._gate.passed(log_offset))
        task.add_done_callback(lambda done: answer(_failure(done)))

    def cancel(self) -> None:
        """End the wait."""
        if self._task is not None:
            self._task.cancel()


def _is_batch(submission: _Submission) -> bool:
    return type(submission[0]) is MessageBatch


def _waits_stored(messages: Sequence[StoreMessage]) -> bool:
    return messages.wait_stored if type(messages) is MessageBatch else messages[-1].wait_stored


def _ask_of(gate: Gate) -> Callable[[int, Callable[[Exception | None], object]], object]:
    return gate.ask if hasattr(gate, "ask") else _TaskAsk(gate)


def _failure(task: asyncio.Future[None]) -> Exception | None:
    if task.cancelled():
        return StoreError("the wait for a gate was cancelled")
    error = task.exception()
    return error if error is None or isinstance(error, Exception) else StoreError(f"a gate failed: {error!r}")


def _answer(done: Done, results: Sequence[PutResult], error: GantryError | None) -> None:
    """Call *done* and log its exceptions, so that other senders still get their responses."""
    try:
        done(results, error)
    except Exception:
        log.exception("the sender of %d messages could not be answered", len(results))
