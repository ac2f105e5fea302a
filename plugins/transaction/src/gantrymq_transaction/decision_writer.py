"""Writes decisions to the log: the committed messages and their op message, one append for all pending decisions.

    submit ... submit     gathered until the next half message arrives, and stored with its append, or for 2 ms;
                          of several half messages in one turn of the loop, the first triggers it; that of a producer
                          with one transaction at a time is stored after its next half message
      `- put_all          [message, message, op "12,13,14,"]: one write, all or none
                          (`StoreMessage.same_file_as_previous`)
           `- settled     the ledger is updated, then the submitters get their results

If one of them is refused, or they do not fit into one log file, none is stored, and each is stored separately: the
message, and once it is durable its op message. So an op message is never stored before its message. A crash in between
leaves a message without op message; the next decision finds it by its key (`copies`).

RocketMQ writes op messages up to three seconds later, so a kill loses decisions that it acknowledged.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from gantrymq.errors import GantryError, RequestError, RequestRefused
from gantrymq.plugin.interfaces import BrokerStorage, PutResult, PutStatus, StoreMessage
from gantrymq.plugin.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_TOPIC
from gantrymq.plugin.world import Timer
from gantrymq_transaction.ledger import Ledger
from gantrymq_transaction.messages import as_submitted, op_message
from gantrymq_transaction.rules import SYSTEM_BUSY
from gantrymq_transaction.settings import OP_BYTES

Stored = asyncio.Future[Any]

log = logging.getLogger(__name__)

GROUP_BYTES: Final = 256 * 1024  # per append, unless a single message is larger
_GROUP_MESSAGES: Final = 128
_OFFSET_BYTES: Final = 20  # most bytes of an offset in an op message
_GATHER_S: Final = 0.002
_WAITING_BYTES: Final = 64 * 1024 * 1024
_WAITING: Final = 20_000  # the limit of pending op messages of a Java broker
_OWN: Final = frozenset({HALF_TOPIC, OP_TOPIC, CHECK_MAX_TIME_TOPIC})


class _Submission:
    """A decision on one transaction, or several that are stored together if that is possible."""

    __slots__ = ("answer", "count", "done", "kind", "messages", "offsets", "op_bytes", "pairs", "size")

    def __init__(
        self, offsets: Sequence[int], messages: Sequence[StoreMessage], done: Stored, answer: Any, kind: bool | None
    ) -> None:
        self.offsets, self.messages, self.done, self.answer, self.kind = offsets, messages, done, answer, kind
        self.pairs: Sequence[tuple[int, StoreMessage | None]] = ()  # of several transactions
        self.count = 1  # of transactions
        self.size = sum([len(message.body) + len(message.properties) for message in messages])
        self.op_bytes = sum([len(str(offset)) + 1 for offset in offsets])


class UncertainAppend:
    """Half messages with a decision that may or may not be stored: a gate failed after the append."""

    def __init__(self, log_end: int, offsets: list[int]) -> None:
        self.log_end, self.offsets = log_end, offsets


class DecisionWriter:
    """Stores decisions in the order in which they were submitted."""

    def __init__(self, broker: BrokerStorage, ledger: Ledger) -> None:
        self._broker = broker
        self._ledger = ledger
        self._waiting: deque[_Submission] = deque()
        self._count = self._bytes = 0  # of decisions not stored yet
        self._gathered = 0  # decisions in `_waiting`
        self._storing: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None
        self._flushed_this_turn = False  # in this turn of the loop
        self._after_half = False  # see `store_after_half`
        self._loop = asyncio.get_running_loop()
        self._taken: dict[int, Stored] = {}
        self.uncertain: list[UncertainAppend] = []

    def submit(self, offsets: Sequence[int], message: StoreMessage | None, answer: Any = None) -> Stored:
        """Store *message* in place of the open half messages at *offsets*, with an op message that settles them.

        Returns:
            A future that is done when both are durable and visible. Its result is *answer* if given, otherwise the
            put result of *message*, None without a message. It raises the store's error; the half messages are then
            open again, or uncertain until the next check round.

        Raises:
            RequestRefused: too many decisions are pending (2).
        """
        if self._is_full():
            raise RequestRefused(
                SYSTEM_BUSY,
                f"{self._count} decisions of {self._bytes} bytes are pending, which is the limit; "
                "the producer of this one is checked later",
            )
        each = self._single(offsets, message, answer)
        self._add(each)
        return each.done

    def most_together(self) -> int:
        """Return the maximum number of transactions that `submit_together` accepts now."""
        most = min(self._broker.settings.number(OP_BYTES) // _OFFSET_BYTES, _GROUP_MESSAGES)
        return 0 if self._is_full() else most

    def submit_together(self, decided: Sequence[tuple[int, StoreMessage | None]]) -> None:
        """Store decisions on several transactions, at most `most_together`, that nobody waits for.

        *decided*: queue offset of the open half message, and the message to store in its place. Interceptors do not
        see these messages.
        """
        messages = [message for _, message in decided if message is not None]
        offsets = [offset for offset, _ in decided]
        each = _Submission(offsets, messages, self._loop.create_future(), None, None)
        each.pairs, each.count = decided, len(decided)
        self._add(each)

    def _is_full(self) -> bool:
        return self._count >= _WAITING or self._bytes > _WAITING_BYTES

    def _single(self, offsets: Sequence[int], message: StoreMessage | None, answer: Any) -> _Submission:
        messages, kind = ((), None) if message is None else ((message,), message.topic in _OWN)
        return _Submission(offsets, messages, self._loop.create_future(), answer, kind)

    def _take(self, each: _Submission) -> None:
        self._ledger.take_all(each.offsets)
        self._taken.update(dict.fromkeys(each.offsets, each.done))

    def _add(self, each: _Submission) -> None:
        self._take(each)
        self._waiting.append(each)
        self._bytes += each.size
        self._count += each.count
        self._gathered += each.count
        if self._gathered >= _GROUP_MESSAGES:
            self.store_now()
        elif self._timer is None:
            self._timer = self._broker.world.clock.call_later(_GATHER_S, self.store_now)

    async def decided(self, offset: int) -> None:
        """Wait for a pending decision of a half message.

        Raises:
            RequestRefused: it is unknown whether the decision was stored (1).
        """
        if (done := self._taken.get(offset)) is not None:
            await asyncio.wait([done])
        elif self._ledger.is_taken(offset):
            raise RequestRefused(
                1, f"a decision on the half message at queue offset {offset} is in doubt: the disk did not confirm it"
            )

    async def close(self) -> None:
        """Wait until all submitted decisions are stored or refused."""
        self.store_now()
        if self._storing:
            await asyncio.wait(list(self._storing))

    def store_after_half(self) -> None:
        """Store the pending decision, if it stays the only one, after the next half message instead of with it.

        Its producer, which has one transaction at a time, waits for the response to that message.
        """
        self._after_half = True

    def flush_with_half(self) -> None:
        """Store pending decisions with the append of an arriving half message, at most once per turn of the loop."""
        if self._waiting and not self._flushed_this_turn:
            self._flushed_this_turn = True
            self._loop.call_soon(self._end_turn)
            if self._after_half and self._gathered == 1:
                self._loop.call_soon(self.store_now)
            else:
                self.store_now()

    def _end_turn(self) -> None:
        self._flushed_this_turn = False

    def store_now(self) -> None:
        """Store pending decisions with the append of this turn of the loop."""
        self._after_half = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            group = self._next_group()
            task = self._loop.create_task(self._store(group, self._append(group)))
            self._storing.add(task)
            task.add_done_callback(self._storing.discard)

    # ----------------------------------------------------------------------------------------------------------------

    def _next_group(self) -> list[_Submission]:
        """Remove and return the next decisions that fit one append and one op message."""
        most_op_bytes = self._broker.settings.number(OP_BYTES)
        group: list[_Submission] = []
        kind: bool | None = None
        size = op_bytes = count = 0
        while self._waiting:
            each = self._waiting[0]
            if group and (
                size + each.size > GROUP_BYTES
                or op_bytes + each.op_bytes > most_op_bytes
                or count + each.count > _GROUP_MESSAGES
            ):
                break
            if each.kind is not None:
                if kind is not None and each.kind is not kind:
                    break
                kind = each.kind
            size += each.size
            op_bytes += each.op_bytes
            count += each.count
            group.append(self._waiting.popleft())
        self._gathered -= count
        return group

    def _append(self, group: list[_Submission]) -> Awaitable[Sequence[PutResult]] | None:
        """Start one append; return None if the messages have to be stored one by one."""
        batch = [message if each.kind is None else as_submitted(message) for each in group for message in each.messages]
        batch.append(self._op(group))
        for message in batch[1:]:
            message.same_file_as_previous = True
        try:
            return self._broker.messages.put_all(batch, skip_interceptors=all(each.kind is not False for each in group))
        except RequestError:  # an interceptor refused one of them, so none is stored
            return None
        except Exception:  # stored one by one, the other messages succeed
            log.exception("decisions could not be stored together")
            return None

    async def _store(self, group: list[_Submission], appended: Awaitable[Sequence[PutResult]] | None) -> None:
        try:
            if appended is None or not self._together(group, await appended):
                await self._apart(group)
        except GantryError as error:
            self._failed(group, error)
        except Exception as error:
            log.exception("decisions could not be stored")
            self._failed(group, error)
        finally:
            self._count -= sum(each.count for each in group)
            self._bytes -= sum(each.size for each in group)

    def _together(self, group: list[_Submission], results: Sequence[PutResult]) -> bool:
        """Process the results of one append. Return False if the store refused it as a whole."""
        if any(result.status is not PutStatus.OK for result in results):
            return False
        *stored, op = results
        self._noted(group, op)
        first = 0
        for each in group:
            self._settled(each, stored[first] if each.messages else None)
            first += len(each.messages)
        return True

    async def _apart(self, group: list[_Submission]) -> None:
        """Store each message separately, followed by its op message."""
        for each in group:
            if not each.pairs:
                await self._alone(each)
                continue
            for offset, message in each.pairs:
                single = self._single((offset,), message, None)
                self._take(single)
                await self._alone(single)
            if not each.done.done():
                each.done.set_result(None)

    async def _alone(self, each: _Submission) -> None:
        """Store the message of one transaction, followed by its op message."""
        try:
            result = await self._put(each.messages[0]) if each.messages else None
            self._noted([each], await self._put(self._op([each])))
        except GantryError as error:
            self._failed([each], error)
        except Exception as error:
            log.exception("the decision of the half messages at %s could not be stored", each.offsets)
            self._failed([each], error)
        else:
            self._settled(each, result)

    async def _put(self, message: StoreMessage) -> PutResult:
        """Store one message; interceptors are skipped for messages of this plugin's own topics."""
        (result,) = await self._broker.messages.put_all(
            [as_submitted(message)], skip_interceptors=message.topic in _OWN
        )
        if result.status is not PutStatus.OK:
            if result.status.is_illegal:
                log.warning(
                    "a message for %s of a transaction, which stays undecided, cannot be stored: %s",
                    message.topic,
                    result.problem,
                )
            raise result.error()
        return result

    def _op(self, group: list[_Submission]) -> StoreMessage:
        offsets = [offset for each in group for offset in each.offsets]
        return op_message(offsets, self._broker.world.clock.now_ms(), self._broker.store_host)

    def _noted(self, group: list[_Submission], op: PutResult) -> None:
        self._ledger.op_stored(op.queue_offset, [offset for each in group for offset in each.offsets])

    def _settled(self, each: _Submission, result: PutResult | None) -> None:
        self._ledger.settle_all(each.offsets)
        for offset in each.offsets:
            self._taken.pop(offset, None)
        if not each.done.done():
            each.done.set_result(result if each.answer is None else each.answer)

    def _failed(self, group: list[_Submission], error: Exception) -> None:
        """Reopen the half messages if the store refused; mark them uncertain if the append may have been stored."""
        uncertain = not isinstance(error, RequestError)
        offsets = [offset for each in group if not each.done.done() for offset in each.offsets]
        if uncertain:
            self.uncertain.append(UncertainAppend(self._broker.store.state().max_log_offset, offsets))
        else:
            for offset in offsets:
                self._ledger.release(offset)
        for each in group:
            self._end_with(each, error)

    def _end_with(self, each: _Submission, error: Exception) -> None:
        for offset in each.offsets:
            self._taken.pop(offset, None)
        if not each.done.done():
            each.done.set_exception(error)
            each.done.exception()  # marks it as retrieved: the submitter may be gone
