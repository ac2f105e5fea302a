"""Messages that a consumer failed to process and sent back: retries with increasing delay, then dead letters.

    delay level of the request      target of the copy
    below 0                         %DLQ%group
    any, after too many failures    %DLQ%group
    0                               %RETRY%group, at delay level 3 + number of earlier failures
    above 0                         %RETRY%group, at that level

The maximum number of retries is that of the group (retryMaxTimes) or of the client's request (maxReconsumeTimes). A
plugin moves the copy to its delay. Unlike in RocketMQ, the response waits for the disk, because the consumer then
treats its message as processed. Ordered consumers send their messages to %RETRY%group by an ordinary send instead.

Source: apache/rocketmq broker/.../processor/AbstractSendMessageProcessor.java (consumerSendMsgBack),
SendMessageProcessor.java (handleRetryAndDLQ).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.prepare import most_tries
from gantrymq.broker.sending.send import Sends
from gantrymq.broker.tables import Tables
from gantrymq.config import Settings
from gantrymq.errors import MessageIllegal, NotWritable, RequestRefused, install_command
from gantrymq.formats.record import RecordView
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import PutResult, PutStatus, SendBackRequest, StoreMessage
from gantrymq.model import names
from gantrymq.model import properties as props
from gantrymq.model.access import Action, group_resource
from gantrymq.model.ids import offset_id
from gantrymq.model.java import ordered_text
from gantrymq.model.sys_flag import INNER_BATCH
from gantrymq.model.topic import PERM_WRITE, TopicConfig
from gantrymq.world import World

_FIRST_LEVEL: Final = 3  # 10 s with RocketMQ's levels


def delay_level(asked: int, failed_before: int, most: int) -> int | None:
    """Return the delay level of the next attempt, from 1, or None if the message becomes a dead letter.

    Args:
        asked: level requested by the consumer; 0: the broker decides, negative: dead letter.
        failed_before: failures according to the record, without the current one.
        most: maximum number of retries.
    """
    if asked < 0 or failed_before >= most:
        return None
    return asked or _FIRST_LEVEL + failed_before


class SendingBack:
    """Takes back messages that consumers failed to process."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        view: Callable[[int], Awaitable[RecordView]],
        tables: Tables,
        sends: Sends,
        interceptors: InterceptorChain,
        store_host: bytes,
    ) -> None:
        """*view* returns the record at a log offset."""
        self._random = world.random.randrange
        self._settings = settings
        self._view = view
        self._topics, self._groups, self._stats = tables.topics, tables.groups, tables.stats
        self._access = tables.access
        self._sends = sends
        self._interceptors = interceptors
        self._store_host = store_host

    async def send_back(self, asked: SendBackRequest) -> PutResult | None:
        """Store a failed message for its next attempt or as a dead letter (`Messages.send_back`)."""
        self._access.check(asked.principal, Action.SUB, group_resource(asked.group))
        group = self._groups.require(asked.group)
        if not self._settings.number("brokerPermission") & PERM_WRITE:
            raise NotWritable(f"this broker's brokerPermission forbids writing; group {group.name} cannot retry here")
        if group.retry_queues <= 0:
            return None
        retry = names.retry_topic(group.name)
        known = self._topics.get(retry)
        if known is not None and not known.writable:
            raise NotWritable(f"topic {retry} takes no messages (perm {known.perm}); make it writable to retry")
        record = await self._view(asked.log_offset)
        self._access.check_consumer(asked.principal, asked.group, record.topic)
        if record.sys_flag & INNER_BATCH:
            raise RequestRefused(
                1, f"the record at log offset {asked.log_offset} holds a batch; one of its messages cannot be sent back"
            )
        most = most_tries(group, asked.max_reconsume_times, asked.client_version)
        level = delay_level(asked.delay_level, record.reconsume_times, most)
        if level is None:
            topic, queue_id = self._topics.create_retry(names.dead_letter_topic(group.name), 1), 0
        else:
            topic = self._topics.create_retry(retry, group.retry_queues, unit=asked.unit_mode)
            queue_id = self._random(max(1, min(group.retry_queues, topic.read_queues)))
        own = own_properties(record, level or 0)
        if level is None and asked.failure:
            _add_failure(own, asked.failure)
        message = self._interceptors.apply(copy_of(record, topic, queue_id, own, self._store_host), own)
        result = await self._put(message, topic, level)
        self._stats.sent_back.add(f"{own[props.RETRY_TOPIC]}@{group.name}", 1, 0)
        if level is None:
            self._stats.dead_letters[own[props.RETRY_TOPIC], group.name] += 1
        return result

    async def _put(self, message: StoreMessage, topic: TopicConfig, level: int | None) -> PutResult:
        if level is not None and message.topic == topic.name:
            raise MessageIllegal(
                f"delay level {level}: a message is retried after a delay, which needs a schedule plugin, and none is "
                f"installed; install one with: {install_command('gantrymq-schedule')}"
            )
        (result,) = await self._sends.put((message,), skip_interceptors=True)
        if result.status is not PutStatus.OK:
            raise result.error()
        return result


def own_properties(record: RecordView, level: int) -> dict[str, str]:
    """Return the properties for the copy of *record*, including its original topic and offset id."""
    own = dict(record.properties)
    own.setdefault(props.RETRY_TOPIC, record.topic)
    # as consumerSendMsgBack of RocketMQ's AbstractSendMessageProcessor does
    own[props.WAIT] = "false"
    own[props.DELAY] = str(level)
    # The copy is not a new message of the light queues; a Java broker lists a dead letter there again.
    own.pop(props.INNER_MULTI_DISPATCH, None)
    own.pop(props.INNER_MULTI_QUEUE_OFFSET, None)
    own.setdefault(props.ORIGIN_MESSAGE_ID, offset_id(bytes(record.store_host), record.log_offset))
    return own


def _add_failure(own: dict[str, str], failure: str) -> None:
    """Add the exception of the consumer, on one line, if there is room for it."""
    text = props.on_one_line(failure).strip()
    with_it = {**own, props.CONSUME_FAILURE: text}
    if text and len(props.encode(with_it)) <= props.MAX_SENT_BYTES:
        own.update(with_it)


def copy_of(
    record: RecordView, topic: TopicConfig, queue_id: int, own: dict[str, str], store_host: bytes
) -> StoreMessage:
    """Return a copy of *record* for another topic, with one more failure."""
    return StoreMessage(
        topic.name,
        queue_id,
        bytes(record.body),
        ordered_text(own),
        tags_code=tags_code(own.get(props.TAGS)),
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_timestamp=record.born_timestamp,
        born_host=bytes(record.born_host),
        store_host=store_host,
        reconsume_times=record.reconsume_times + 1,
    )
