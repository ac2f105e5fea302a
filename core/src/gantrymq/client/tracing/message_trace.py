"""Message trace: who sent a message, where it is stored, who consumed it and how long that took, in RocketMQ's format.

    async with Client("127.0.0.1:9876", trace=True) as client:

The trace is written to a topic of the same cluster, where ``mqadmin queryMsgTraceById``, RocketMQ's dashboard and
`gantrymq.client.decode_trace` read it. Failed and oneway sends are not traced, as their outcome is unknown; nor are
sends to a broker with ``traceOn=false``. Each message of a batch is traced under its own id.

Sources: apache/rocketmq client/.../trace/hook/SendMessageTraceHookImpl.java, ConsumeMessageTraceHookImpl.java,
EndTransactionTraceHookImpl.java.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from gantrymq.client.message import Message, ReceivedMessage
from gantrymq.client.sending.validation import is_delayed
from gantrymq.client.tracing.hooks import ConsumeContext, ConsumeOutcome, EndTransactionContext, SendContext
from gantrymq.client.tracing.records import EndTransaction, MessageType, Pub, SubAfter, SubBefore, TraceRecord
from gantrymq.errors import InvalidParameter
from gantrymq.model import names
from gantrymq.model import properties as property_names

if TYPE_CHECKING:
    from gantrymq.client.connection.instance import ClientInstance


_DEFAULT_REGION: Final = "DefaultRegion"
_START_DELIVER_TIME: Final = "__STARTDELIVERTIME"
_STATES: Final = {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE", "UNKNOWN": "UNKNOW"}


class MessageTrace:
    """Settings and counters of a message trace; may be shared by several producers and consumers.

    Attributes:
        topic: the trace topic.
        written: number of stored records.
        dropped: number of lost records: too many were waiting, or no broker accepted them.
    """

    def __init__(
        self, topic: str = names.TRACE_TOPIC, *, batch: int = 20, most_waiting: int = 2048, flush_every_s: float = 5.0
    ) -> None:
        """The defaults are RocketMQ's.

        Args:
            topic: must exist, unless brokers create topics automatically.
            batch: number of records that triggers a message, 1 to 100; a message contains all waiting records.
            most_waiting: maximum waiting records of one producer or consumer; further ones are dropped.
            flush_every_s: maximum time that a record waits for others, in seconds.

        Raises:
            InvalidParameter: the topic's name is not legal, or a number is out of bounds.
        """
        names.check_topic(topic)
        if not 1 <= batch <= 100:
            raise InvalidParameter(f"batch of a message trace is {batch}; expected 1 to 100")
        if most_waiting < batch:
            raise InvalidParameter(f"most_waiting of a message trace is {most_waiting}; expected {batch} and more")
        if not 0 < flush_every_s <= 3600:
            raise InvalidParameter(f"flush_every_s of a message trace is {flush_every_s}; expected 0 to 3600")
        self.topic = topic
        self.batch = batch
        self.most_waiting = most_waiting
        self.flush_every_s = flush_every_s
        self.written = 0
        self.dropped = 0


class TraceHook:
    """The hook that creates trace records."""

    def __init__(self, topic: str, append: Callable[[list[TraceRecord]], object], instance: ClientInstance) -> None:
        """Messages of topics that begin with *topic* are not traced."""
        self._topic = topic
        self._append = append
        self._instance = instance

    def before_send(self, context: SendContext) -> None:
        """Do nothing."""

    def after_send(self, context: SendContext) -> None:
        """Append a Pub for each message."""
        result = context.result
        if result is None or not result.trace_on or context.topic.startswith(self._topic):
            return
        offset_ids = result.offset_ids
        if len(offset_ids) != len(context.messages):  # an inner batch is one record
            offset_ids = offset_ids[:1] * len(context.messages)
        self._append(
            [
                Pub(
                    time_ms=context.started_ms,
                    region=result.region,
                    group=context.group,
                    topic=context.topic,
                    message_id=message.system_properties[property_names.UNIQ_KEY],
                    tags=message.tags or None,
                    keys=_keys(message),
                    store_host=context.broker_address,
                    body_length=len(message.body),
                    cost_ms=int(context.duration_s * 1000),
                    message_type=_message_type(message),
                    offset_id=offset_id,
                    success=result.ok,
                )
                for message, offset_id in zip(context.messages, offset_ids, strict=True)
            ]
        )

    def before_consume(self, context: ConsumeContext) -> None:
        """Append a SubBefore for each message."""
        traced = list(self._traced(context))
        if traced:
            request_id = context.notes[self] = self._instance.ids.next()
            self._append(
                [
                    SubBefore(
                        time_ms=context.started_ms,
                        region=message.properties.get(property_names.MSG_REGION) or _DEFAULT_REGION,
                        group=context.group,
                        request_id=request_id,
                        message_id=message.message_id,
                        retry_times=message.reconsume_times,
                        keys=message.keys,
                    )
                    for _, message in traced
                ]
            )

    def after_consume(self, context: ConsumeContext) -> None:
        """Append a SubAfter for each message."""
        request_id, outcome = context.notes.get(self), context.outcome
        if request_id is None or outcome is None:
            return
        known = ConsumeOutcome.FAILED if outcome is ConsumeOutcome.GIVEN_BACK else outcome
        self._append(
            [
                SubAfter(
                    request_id=request_id,
                    message_id=message.message_id,
                    cost_ms=int(context.duration_s * 1000 / len(context.messages)),
                    success=number < context.consumed,
                    keys=message.keys,
                    context_code=known.value,
                    time_ms=self._instance.world.clock.now_ms(),
                    group=context.group,
                )
                for number, message in self._traced(context)
            ]
        )

    def _traced(self, context: ConsumeContext) -> Iterator[tuple[int, ReceivedMessage]]:
        """Yield the traced messages of *context*, each with its position."""
        if not context.topic.startswith(self._topic):
            for number, message in enumerate(context.messages):
                wanted = message.properties.get(property_names.TRACE_ON) != "false"
                if wanted and message.message_id:  # a corrupt record has no message id
                    yield number, message

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Append an EndTransaction."""
        message = context.message
        if context.topic.startswith(self._topic):
            return
        received = message.properties if isinstance(message, ReceivedMessage) else {}
        self._append(
            [
                EndTransaction(
                    time_ms=self._instance.world.clock.now_ms(),
                    region=received.get(property_names.MSG_REGION) or _DEFAULT_REGION,
                    group=context.group,
                    topic=context.topic,
                    message_id=context.message_id,
                    tags=message.tags or None,
                    keys=_keys(message),
                    store_host=context.broker_address,
                    message_type=MessageType.TRANSACTION_COMMIT,
                    transaction_id=context.transaction_id,
                    state=_STATES[context.state.name],
                    from_check=context.from_check,
                )
            ]
        )


def _keys(message: Message | ReceivedMessage) -> str | None:
    keys = message.keys
    return (keys if keys is None or isinstance(keys, str) else " ".join(keys)) or None


def _message_type(message: Message) -> MessageType:
    if is_delayed(message) or _START_DELIVER_TIME in message.properties:
        return MessageType.DELAY
    half = message.system_properties.get(property_names.TRAN_MSG) == "true"
    return MessageType.TRANSACTION_HALF if half else MessageType.NORMAL
