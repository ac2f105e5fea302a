"""Calls hooks: builds their contexts and contains their exceptions."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.sending import validation
from gantrymq.client.tracing.hooks import (
    ConsumeContext,
    ConsumeHook,
    ConsumeOutcome,
    EndTransactionContext,
    Hook,
    ProcessHook,
    SendContext,
    SendHook,
    SendKind,
    TransactionHook,
)
from gantrymq.client.user_functions import EXITS, require_plain
from gantrymq.errors import ClientError
from gantrymq.model.properties import UNIQ_KEY
from gantrymq.model.queue import MessageQueue

if TYPE_CHECKING:
    from gantrymq.client.connection.instance import ClientInstance
    from gantrymq.client.message import TransactionState
    from gantrymq.client.sending.results import SendResult

Result = TypeVar("Result", bound="SendResult | None")

logger = logging.getLogger("gantrymq.client")


def copy_message(message: Message, unique_id: str) -> Message:
    """Return a copy of *message* with a unique id if it has none; several times as fast as `attrs.evolve`."""
    return Message(
        message.topic,
        bytes(message.body),
        message.tags,
        message.keys,
        message.flag,
        dict(message.properties),
        message.wait_stored,
        message.delay_level,
        message.delay_ms,
        message.deliver_at_ms,
        {UNIQ_KEY: unique_id, **message.system_properties},
    )


class _Calls:
    """Calls hooks; logs the first exception of each hook method."""

    def __init__(self, instance: ClientInstance, group: str) -> None:
        self._instance = instance
        self._clock = instance.world.clock
        self._group = group
        self._logged: set[tuple[str, str]] = set()

    def _call(self, method: Callable[[Any], object], context: object) -> None:
        try:
            require_plain(method(context), "a hook")
        except EXITS:
            raise
        except BaseException:  # includes a CancelledError raised by the hook itself, which cancels no task
            where = (type(getattr(method, "__self__", method)).__name__, getattr(method, "__name__", "hook"))
            if where not in self._logged:
                self._logged.add(where)
                logger.exception("%s.%s, a hook of %s, raised; further errors are not logged", *where, self._group)


class SendHookCaller(_Calls):
    """Calls the hooks of one producer."""

    def __init__(self, hooks: Iterable[Hook], instance: ClientInstance, group: str, max_bytes: int) -> None:
        """*max_bytes* is the maximum body size."""
        super().__init__(instance, group)
        self._hooks = [hook for hook in hooks if isinstance(hook, SendHook)]
        self._ends = [hook for hook in hooks if isinstance(hook, TransactionHook)]
        self._max_bytes = max_bytes

    def around(
        self,
        kind: SendKind,
        messages: Sequence[Message],
        queue: object,
        send: Callable[[SendContext], Awaitable[Result]],
    ) -> Coroutine[Any, Any, Result]:
        """Copy *messages* now and return a coroutine that calls the hooks and sends the copies.

        Args:
            kind: the kind of call that the application made.
            messages: validated; they are not modified.
            queue: a queue, or another destination.
            send: sends the messages of the context.
        """
        return self._around(kind, self._copies(messages), queue, send)

    async def _around(
        self,
        kind: SendKind,
        copies: tuple[Message, ...],
        queue: object,
        send: Callable[[SendContext], Awaitable[Result]],
    ) -> Result:
        context = SendContext(
            kind=kind,
            group=self._group,
            client_id=self._instance.client_id,
            topic=copies[0].topic,
            messages=copies,
            queue=queue if isinstance(queue, MessageQueue) else None,
            started_ms=self._clock.now_ms(),
        )
        begun = self._clock.monotonic()
        properties = [dict(message.properties) for message in copies]
        for hook in self._hooks:
            self._call(hook.before_send, context)
        if any(message.properties != before for message, before in zip(copies, properties, strict=True)):
            self._check(context, properties)
        try:
            result = await send(context)
        except BaseException as error:
            self._after(context, begun, None, error)
            raise
        self._after(context, begun, result, None)
        return result

    def ended(
        self,
        message: Message | ReceivedMessage,
        message_id: str,
        transaction_id: str | None,
        state: TransactionState,
        broker_address: str,
        *,
        from_check: bool,
    ) -> None:
        """Call the hooks for a decided transaction; arguments as in `EndTransactionContext`."""
        context = EndTransactionContext(
            group=self._group,
            client_id=self._instance.client_id,
            topic=message.topic,
            message=message,
            message_id=message_id,
            transaction_id=transaction_id,
            state=state,
            from_check=from_check,
            broker_address=broker_address,
        )
        for hook in self._ends:
            self._call(hook.end_transaction, context)

    def _after(
        self, context: SendContext, begun: float, result: SendResult | None, error: BaseException | None
    ) -> None:
        context.duration_s = self._clock.monotonic() - begun
        context.result, context.error = result, error
        if result is not None:
            context.queue = result.queue
            context.broker_address = self._instance.routes.master(result.queue.broker_name) or ""
        for hook in self._hooks:
            self._call(hook.after_send, context)

    def _copies(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple([copy_message(message, self._instance.ids.next()) for message in messages])

    def _check(self, context: SendContext, properties: list[dict[str, str]]) -> None:
        """Validate the messages after the hooks; if one is invalid, restore *properties*, those before the hooks."""
        try:
            for message in context.messages:
                validation.check_message(message, self._max_bytes)
        except ClientError as problem:
            for message, before in zip(context.messages, properties, strict=True):
                message.properties = before
            where = ("before_send", "properties")
            if where not in self._logged:
                self._logged.add(where)
                logger.warning(
                    "messages of %s are sent without the properties that hooks added: %s", self._group, problem
                )


class ConsumeHookCaller(_Calls):
    """Calls the hooks of one consumer."""

    def __init__(
        self,
        hooks: Iterable[Hook],
        instance: ClientInstance,
        group: str,
        *,
        broadcasting: bool,
        consume_timeout_s: float,
    ) -> None:
        super().__init__(instance, group)
        self._hooks = [hook for hook in hooks if isinstance(hook, ConsumeHook)]
        self._process_hooks = [hook for hook in hooks if isinstance(hook, ProcessHook)]
        self._broadcasting = broadcasting
        self._timeout_s = consume_timeout_s

    def before(
        self, queue: MessageQueue, messages: Sequence[ReceivedMessage], *, batch: bool, in_task: bool
    ) -> ConsumeContext:
        """Call the hooks for delivered messages; arguments as in `ConsumeContext`."""
        context = ConsumeContext(
            group=self._group,
            client_id=self._instance.client_id,
            topic=queue.topic,
            queue=queue,
            messages=messages,
            batch=batch,
            broadcasting=self._broadcasting,
            in_task=in_task,
            started_ms=self._clock.now_ms(),
        )
        context.notes[self] = self._clock.monotonic()
        for hook in self._hooks:
            self._call(hook.before_consume, context)
        return context

    def after(self, context: ConsumeContext, outcome: ConsumeOutcome, error: BaseException | None = None) -> None:
        """Call the hooks for messages that the application is done with."""
        context.duration_s = self._clock.monotonic() - context.notes[self]
        if outcome is ConsumeOutcome.SUCCESS:
            context.consumed = len(context.messages)
        late = context.duration_s >= self._timeout_s and outcome is not ConsumeOutcome.EXCEPTION
        context.outcome, context.error = ConsumeOutcome.TIME_OUT if late else outcome, error
        for hook in reversed(self._hooks):
            self._call(hook.after_consume, context)

    @contextmanager
    def processing(self, contexts: Sequence[ConsumeContext]) -> Iterator[None]:
        """Call the hooks around the processing of messages in flight."""
        for hook in self._process_hooks:
            self._call(hook.begin_processing, contexts)
        try:
            yield
        finally:
            for hook in reversed(self._process_hooks):
                self._call(hook.end_processing, contexts)


class UnsettledMessages:
    """Messages in flight with ``auto_ack=False``."""

    def __init__(self, calls: ConsumeHookCaller) -> None:
        self._calls = calls
        self._contexts: dict[Hashable, ConsumeContext] = {}

    def handed(self, queue: MessageQueue, messages: Iterable[tuple[Hashable, ReceivedMessage]]) -> None:
        """Note that *messages* of *queue* were delivered, each under a key."""
        for key, message in messages:
            self.settled(key, ConsumeOutcome.GIVEN_BACK)  # delivered before, by a queue that was revoked and reassigned
            self._contexts[key] = self._calls.before(queue, [message], batch=False, in_task=False)

    def processing(self, keys: Iterable[Hashable]) -> AbstractContextManager[None]:
        """Call the hooks around the processing of the messages under *keys*; unknown keys are ignored."""
        contexts = [self._contexts[key] for key in keys if key in self._contexts]
        return self._calls.processing(contexts) if contexts else nullcontext()

    def settled(self, key: Hashable, outcome: ConsumeOutcome) -> None:
        """Note that a message was acknowledged or rejected; a no-op for an unknown key."""
        context = self._contexts.pop(key, None)
        if context is not None:
            self._calls.after(context, outcome)

    def keep_only(self, keys: Iterable[Hashable]) -> None:
        """Settle all messages except those that can still be acknowledged."""
        kept = set(keys)
        for key in [key for key in self._contexts if key not in kept]:
            self.settled(key, ConsumeOutcome.GIVEN_BACK)
