"""Instrumentation of one producer or consumer: its hooks and its message trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypedDict

from gantrymq.client.tracing.hook_calls import ConsumeHookCaller, SendHookCaller
from gantrymq.client.tracing.hooks import ConsumeHook, Hook, SendHook, TransactionHook
from gantrymq.client.user_functions import check_function
from gantrymq.errors import InvalidParameter

if TYPE_CHECKING:
    from gantrymq.client.connection.instance import ClientInstance
    from gantrymq.client.tracing.message_trace import MessageTrace
    from gantrymq.client.tracing.writer import TraceWriter


_METHODS: Final = (
    "before_send",
    "after_send",
    "before_consume",
    "after_consume",
    "begin_processing",
    "end_processing",
    "end_transaction",
)


class InstrumentationOptions(TypedDict, total=False):
    """Options of `Client`, `Producer`, `TransactionProducer` and `Consumer`; each may be omitted."""

    hooks: Iterable[Hook]
    """Notified of sends and consumption, see `gantrymq.client.tracing.hooks`; added to the hooks of the `Client`, if
    any.
    """

    trace: bool | MessageTrace
    """Whether to write a message trace to a topic of the cluster; a `MessageTrace` has the settings. Defaults to the
    option of the `Client`.
    """


class Instrumentation:
    """Hooks and trace of a producer or consumer; started and closed with it."""

    def __init__(self, hooks: Iterable[Hook], trace: bool | MessageTrace) -> None:
        """Raises InvalidParameter if one of *hooks* is not a hook, or has an async method."""
        if not isinstance(hooks, Iterable):
            raise InvalidParameter(f"hooks is {hooks!r}; expected a list of hooks")
        self.hooks = tuple(hooks)
        for hook in self.hooks:
            if isinstance(hook, type) or not isinstance(hook, SendHook | ConsumeHook | TransactionHook):
                raise InvalidParameter(
                    f"{hook!r} is not a hook; expected an object with before_send and after_send, before_consume and "
                    "after_consume, or end_transaction"
                )
            for name in _METHODS:
                if (method := getattr(hook, name, None)) is not None:
                    check_function(method, f"{name} of {type(hook).__name__}", plain="hooks are not awaited")
        self.trace = _trace(trace)
        self._writer: TraceWriter | None = None

    def sends(self, instance: ClientInstance, group: str, max_bytes: int) -> SendHookCaller | None:
        """Start; return the hook caller of a producer, or None without hooks. *max_bytes* is the maximum body size."""
        hooks = self._begin(instance, group, "PRODUCE")
        return SendHookCaller(hooks, instance, group, max_bytes) if hooks else None

    def consumptions(
        self, instance: ClientInstance, group: str, *, broadcasting: bool, consume_timeout_s: float
    ) -> ConsumeHookCaller | None:
        """Start; return the hook caller of a consumer, or None without hooks."""
        hooks = self._begin(instance, group, "CONSUME")
        if not hooks:
            return None
        return ConsumeHookCaller(hooks, instance, group, broadcasting=broadcasting, consume_timeout_s=consume_timeout_s)

    def _begin(self, instance: ClientInstance, group: str, role: str) -> tuple[Hook, ...]:
        if self.trace is None:
            return self.hooks
        from gantrymq.client.tracing.message_trace import TraceHook
        from gantrymq.client.tracing.writer import TraceWriter

        self._writer = TraceWriter(self.trace, instance, group, role)
        return (*self.hooks, TraceHook(self.trace.topic, self._writer.append, instance))

    async def flush(self) -> None:
        """Write waiting trace records."""
        if self._writer is not None:
            await self._writer.flush()

    async def close(self) -> None:
        """Write the trace records added since `flush`, then stop the trace."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close()


def _trace(trace: bool | MessageTrace) -> MessageTrace | None:
    if trace is False:
        return None
    from gantrymq.client.tracing.message_trace import MessageTrace

    if trace is True:
        return MessageTrace()
    if not isinstance(trace, MessageTrace):
        raise InvalidParameter(f"trace is {trace!r}; expected True, False or a MessageTrace")
    return trace
