"""OpenTelemetry spans for sent and consumed messages; needs ``pip install opentelemetry-api``.

    from gantrymq.client.opentelemetry import OpenTelemetry

    async with Client("127.0.0.1:9876", hooks=[OpenTelemetry()]) as client:

    span                kind       parent                      created for
    send TOPIC          PRODUCER   the current span            a sent message
    create TOPIC        PRODUCER   the current span            each message of a batch
    send TOPIC          CLIENT     the current span            a sent batch, or a sent message that already belongs to
                                                               a trace; linked to the contexts in its messages
    process TOPIC       CONSUMER   the message's context       the processing of a message
    process TOPIC       CONSUMER   the current span            the processing of several messages; linked to theirs

The global propagator writes the trace context into the properties of a message (``traceparent`` and ``tracestate`` of
W3C by default), where clients in other languages find it. A message that already has a context, such as one that is
forwarded with `Message.from_received`, keeps it. While a message is processed its span is current: in the body of a
loop, in an async handler, in the thread of a plain one. With ``auto_ack=False``, where several messages are in flight
at a time, it is current within ``with consumer.processing(message)``; several messages there share a span that is
linked to theirs.

Source: OpenTelemetry's semantic conventions for messaging and for RocketMQ (development), as of version 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome, SendContext
from gantrymq.model import properties as names
from gantrymq.model.hosts import parse_address
from gantrymq.model.names import RETRY_PREFIX

try:
    from opentelemetry import context as contexts
    from opentelemetry import propagate
    from opentelemetry.trace import (
        Link,
        Span,
        SpanContext,
        SpanKind,
        Status,
        StatusCode,
        TracerProvider,
        get_current_span,
        get_tracer,
        set_span_in_context,
    )
except ImportError as problem:
    raise ImportError(
        "gantrymq.client.opentelemetry needs OpenTelemetry's API: pip install opentelemetry-api"
    ) from problem

__all__ = ["OpenTelemetry"]

_ERRORS: Final = {ConsumeOutcome.FAILED: "reconsume_later", ConsumeOutcome.TIME_OUT: "timeout"}

Attributes = dict[str, Any]


class OpenTelemetry:
    """A hook that creates spans; one instance serves any number of producers and consumers."""

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        """*tracer_provider* creates the spans; None for the global one."""
        self._tracer = get_tracer("gantrymq.client", tracer_provider=tracer_provider)

    def before_send(self, context: SendContext) -> None:
        """Start the span and add its context to the messages."""
        common = _of_send(context)
        batch = context.kind == "batch"
        if batch:
            attributes = {**common, "messaging.batch.message_count": len(context.messages)}
        else:
            attributes = {**common, **_of_message(context.messages[0], context.started_ms)}
        attributes |= {"messaging.operation.name": "send", "messaging.operation.type": "send"}
        carried = [_carried(message.properties) for message in context.messages]
        if not batch and carried[0] is None:
            span = self._tracer.start_span(f"send {context.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
            _carry(span, context.messages[0])
        else:
            links = [
                Link(self._created(context, common, message) if found is None else found)
                for message, found in zip(context.messages, carried, strict=True)
            ]
            span = self._tracer.start_span(
                f"send {context.topic}", kind=SpanKind.CLIENT, attributes=attributes, links=links
            )
        context.notes[self] = span

    def after_send(self, context: SendContext) -> None:
        """End the span."""
        span: Span | None = context.notes.pop(self, None)
        if span is None:
            return
        if context.queue is not None:
            span.set_attribute("messaging.destination.partition.id", str(context.queue.queue_id))
        if context.broker_address:
            host, port = parse_address(context.broker_address)
            span.set_attributes({"server.address": host, "server.port": port})
        if context.error is not None:
            _failed(span, context.error)
        span.end()

    def _created(self, context: SendContext, common: Attributes, message: Message) -> SpanContext:
        """Create the span of one message of a batch and add its context to the message."""
        attributes = {**common, **_of_message(message, context.started_ms)}
        attributes |= {"messaging.operation.name": "create", "messaging.operation.type": "create"}
        span = self._tracer.start_span(f"create {context.topic}", kind=SpanKind.PRODUCER, attributes=attributes)
        _carry(span, message)
        span.end()
        return span.get_span_context()

    def before_consume(self, context: ConsumeContext) -> None:
        """Start the span; make it current if the messages are consumed in the same task."""
        first = context.messages[0]
        topic = _topic(context)
        attributes: Attributes = {
            "messaging.system": "rocketmq",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
            "messaging.destination.partition.id": str(context.queue.queue_id),
            "messaging.consumer.group.name": context.group,
            "messaging.client.id": context.client_id,
            "messaging.rocketmq.consumption_model": "broadcasting" if context.broadcasting else "clustering",
        }
        before = contexts.get_current()
        if context.batch:
            attributes["messaging.batch.message_count"] = len(context.messages)
            found = (_carried(message.properties) for message in context.messages)
            links = [Link(each) for each in found if each is not None]
            parent = before
        else:
            attributes |= _of_message(first, first.born_timestamp)
            links = []
            parent = propagate.extract(first.properties)
        span = self._tracer.start_span(
            f"process {topic}", context=parent, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        context.notes[self] = span, before
        context.notes[self, "current"] = set_span_in_context(span, parent)
        if context.in_task:
            contexts.attach(context.notes[self, "current"])

    def after_consume(self, context: ConsumeContext) -> None:
        """End the span and restore the previous context."""
        span, before = context.notes.pop(self, (None, None))
        if span is None:
            return
        if context.in_task and get_current_span() is span:  # an abandoned loop may be finalized in another task
            contexts.attach(before)
        if context.error is not None:
            _failed(span, context.error)
        elif context.outcome in _ERRORS:
            span.set_attribute("error.type", _ERRORS[context.outcome])
            span.set_status(Status(StatusCode.ERROR, f"{context.consumed} of {len(context.messages)} consumed"))
        span.end()

    def begin_processing(self, consumed: Sequence[ConsumeContext]) -> None:
        """Make the span of the message current, or a new span for several messages."""
        first, span = consumed[0], None
        current = first.notes[self, "current"]
        if len(consumed) > 1:
            links = [Link(get_current_span(each.notes[self, "current"]).get_span_context()) for each in consumed]
            attributes: Attributes = {
                "messaging.system": "rocketmq",
                "messaging.destination.name": _topic(first),
                "messaging.consumer.group.name": first.group,
                "messaging.batch.message_count": len(consumed),
            }
            span = self._tracer.start_span(f"process {_topic(first)}", attributes=attributes, links=links)
            current = set_span_in_context(span)
        first.notes.setdefault((self, "processing"), []).append((span, contexts.attach(current)))

    def end_processing(self, consumed: Sequence[ConsumeContext]) -> None:
        """Restore the previous context."""
        span, token = consumed[0].notes[self, "processing"].pop()
        contexts.detach(token)
        if span is not None:
            span.end()


def _of_send(context: SendContext) -> Attributes:
    return {
        "messaging.system": "rocketmq",
        "messaging.destination.name": context.topic,
        "messaging.client.id": context.client_id,
        "messaging.rocketmq.client_group": context.group,
    }


def _of_message(message: Message | ReceivedMessage, sent_ms: int) -> Attributes:
    """Return the attributes of one message; *sent_ms* is the start of its delay, ms since 1970."""
    found = message.properties if isinstance(message, ReceivedMessage) else message.all_properties()
    attributes: Attributes = {
        "messaging.message.body.size": len(message.body),
        "messaging.rocketmq.message.type": "normal",
    }
    message_id = message.message_id if isinstance(message, ReceivedMessage) else found.get(names.UNIQ_KEY)
    if message_id:
        attributes["messaging.message.id"] = message_id
    if tag := found.get(names.TAGS):
        attributes["messaging.rocketmq.message.tag"] = tag
    if keys := found.get(names.KEYS):
        attributes["messaging.rocketmq.message.keys"] = keys.split()
    if group := found.get(names.SHARDING_KEY):
        attributes["messaging.rocketmq.message.type"] = "fifo"
        attributes["messaging.rocketmq.message.group"] = group
    if found.get(names.TRAN_MSG) == "true":
        attributes["messaging.rocketmq.message.type"] = "transaction"
    if delay := _delay(found, sent_ms):
        attributes["messaging.rocketmq.message.type"] = "delay"
        attributes |= delay
    return attributes


def _delay(found: Mapping[str, str], sent_ms: int) -> Attributes:
    for name, level in ((names.DELAY, "0"), (names.TIMER_DELIVER_MS, ""), (names.TIMER_DELAY_MS, "")):
        text = found.get(name, level)
        if text.isdecimal() and text != "0":
            if name == names.DELAY:
                return {"messaging.rocketmq.message.delay_time_level": int(text)}
            at_ms = int(text) + (sent_ms if name == names.TIMER_DELAY_MS else 0)
            return {"messaging.rocketmq.message.delivery_timestamp": at_ms}
    return {}


def _topic(context: ConsumeContext) -> str:
    """Return the topic that the messages were sent to."""
    if context.topic.startswith(RETRY_PREFIX):
        return context.messages[0].properties.get(names.RETRY_TOPIC) or context.topic
    return context.topic


def _carried(properties: Mapping[str, str]) -> SpanContext | None:
    """Return the span context in the properties of a message, if any."""
    found = get_current_span(propagate.extract(properties, contexts.Context())).get_span_context()
    return found if found.is_valid else None


def _carry(span: Span, message: Message) -> None:
    """Write the context of *span* into the properties of *message*; writes nothing if the span is not recorded."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, set_span_in_context(span))
    message.properties.update((name, value) for name, value in carrier.items() if value)  # a property is never empty


def _failed(span: Span, error: BaseException) -> None:
    kind = type(error)
    span.record_exception(error)
    span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
    span.set_status(Status(StatusCode.ERROR, str(error)))
