"""Messages for the batches of clients.

    ordinary queues     one record per entry, all or none are stored
    batch queues        one record for all entries (an inner batch) if the batch has a UNIQ_KEY

Interceptors are applied to each entry, unless they opt out. Changed entries of an inner batch are encoded again into
the body of the batch. If no plugin has to see an entry, and all entries are plain, they are not decoded here: the store
gets the body of the batch (`MessageBatch`).

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java (sendBatchMessage).
"""

from __future__ import annotations

from collections.abc import Sequence

from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.queue_targets import TargetSelector, requested_delay
from gantrymq.broker.sending.stored_properties import properties_too_long
from gantrymq.config import Settings
from gantrymq.errors import BodyEmpty, BodyTooLarge, FormatError, MessageIllegal, PropertiesTooLarge
from gantrymq.formats.batch_body import BatchEntry, decode_batch, encode_batch, plain_entries
from gantrymq.formats.tags_code import tags_code
from gantrymq.interfaces import MessageBatch, QueueTargets, SendRequest, StoreMessage
from gantrymq.model import names, sys_flag
from gantrymq.model import properties as props
from gantrymq.model.java import ordered_text
from gantrymq.model.topic import TopicConfig


class Batches:
    """Creates the messages of batches."""

    def __init__(
        self, settings: Settings, target_selector: TargetSelector, interceptors: InterceptorChain, store_host: bytes
    ) -> None:
        self._settings = settings
        self._target_selector = target_selector
        self._interceptors = interceptors.for_batch_entries()
        self._store_host = store_host
        self._unplain_names = self._interceptors.names | target_selector.names  # entries with them are decoded
        self._unplain = tuple(map(str.encode, sorted(self._unplain_names)))

    def messages(
        self, request: SendRequest, topic: TopicConfig, queue_id: int, flags: int, envelope: dict[str, str]
    ) -> Sequence[StoreMessage]:
        """Return the messages to store for *request*, a batch with the properties *envelope*.

        Raises:
            RequestError: the batch cannot be stored, or an interceptor refuses an entry; nothing is stored.
        """
        self._check(request, topic, envelope)
        if plain := self._plain(request, topic, queue_id, flags, envelope):
            return plain
        entries = self._entries(request, topic)
        inner = topic.has_batch_queues and props.UNIQ_KEY in envelope
        if inner:
            envelope[props.INNER_NUM] = str(len(entries))
        appended = ordered_text(envelope)
        self._target_selector.refuse_light_batch(topic, appended)
        wait = envelope.get(props.WAIT) != "false"
        own_tag = envelope.get(props.TAGS)

        def message(flag: int, body: bytes | memoryview, properties: bytes, code: int) -> StoreMessage:
            return StoreMessage(
                topic.name,
                queue_id,
                body,
                properties,
                tags_code=code,
                flag=flag,
                sys_flag=flags,
                born_timestamp=request.born_timestamp,
                born_host=request.born_host,
                store_host=self._store_host,
                reconsume_times=request.reconsume_times,
                wait_stored=wait,
            )

        code = tags_code(own_tag)
        if inner:
            assert request.body is not None
            body: bytes | memoryview = request.body
            _refuse_too_long(entries)
            if self._interceptors:
                made = [self._interceptors.apply_undecoded(message(*entry, code)) for entry in entries]
                _refuse_too_long(made)
                body = _joined(topic, queue_id, made, entries) or body
            whole = message(request.flag, body, appended, code)
            _refuse_too_long([whole])
            whole.sys_flag |= sys_flag.NEED_UNWRAP | sys_flag.INNER_BATCH
            whole.queue_targets = QueueTargets(batch=len(entries))
            return [whole]
        found: list[StoreMessage] = []
        for flag, body, own in entries:
            text = own if not own or own.endswith(b"\x02") else own + b"\x02"
            targets = self._target_selector.for_batch_entry(topic, text)
            if not own_tag:
                code = tags_code(props.decode(own).get(props.TAGS) if own else None)
            one = self._interceptors.apply_undecoded(message(flag, body, text + appended, code))
            self._target_selector.refuse_light_batch(topic, one.properties)  # an interceptor may have named them
            one.same_file_as_previous = bool(found)
            if one.topic == topic.name:
                one.queue_targets = targets
            found.append(one)
        _refuse_too_long(found)
        return found

    def _plain(
        self, request: SendRequest, topic: TopicConfig, queue_id: int, flags: int, envelope: dict[str, str]
    ) -> MessageBatch | None:
        """Return the batch with its entries not decoded, or None if they have to be."""
        if topic.has_batch_queues or self._interceptors.of_all or not self._unplain_names.isdisjoint(envelope):
            return None
        assert request.body is not None
        added = ordered_text(envelope)
        room = props.MAX_SENT_BYTES - len(added)
        if not added.isascii() or 0 in added or room < 0:
            return None
        count = plain_entries(request.body, self._settings.number("maxBatchMessages"), room, self._unplain)
        if not count:
            return None
        own_tag = envelope.get(props.TAGS)
        return MessageBatch(
            count,
            topic.name,
            queue_id,
            request.body,
            added,
            tags_code(own_tag) if own_tag else None,
            flags,
            request.born_timestamp,
            request.born_host,
            self._store_host,
            request.reconsume_times,
            envelope.get(props.WAIT) != "false",
        )

    def _check(self, request: SendRequest, topic: TopicConfig, envelope: dict[str, str]) -> None:
        if len(topic.name) > names.MAX_TOPIC_CHARS:
            raise MessageIllegal(f"a batch cannot go to topic {topic.name[:40]}..., whose name is longer than 127")
        if envelope.get(props.TRAN_MSG) == "true":
            raise MessageIllegal("a batch cannot be transactional; send the messages one by one")
        if (delay := requested_delay(envelope)) is not None:
            raise MessageIllegal(f"{delay}={envelope[delay]}: a batch cannot be delayed; send the messages one by one")
        assert request.body is not None
        limit = self._settings.number("maxMessageSize")
        if len(request.body) > limit:
            raise BodyTooLarge(
                f"the batch of {len(request.body)} bytes is over the limit of {limit} (maxMessageSize); send fewer "
                "messages in one batch"
            )

    def _entries(self, request: SendRequest, topic: TopicConfig) -> list[BatchEntry]:
        assert request.body is not None
        try:
            entries = decode_batch(request.body, self._settings.number("maxBatchMessages"))
        except FormatError as error:
            raise MessageIllegal(f"the batch for topic {topic.name} cannot be read: {error}") from error
        if not entries:
            raise BodyEmpty(f"the batch for topic {topic.name} holds no message")
        return entries


def _refuse_too_long(messages: Sequence[StoreMessage | BatchEntry]) -> None:
    """Refuse messages if one has properties without space for later additions. Raises MessageIllegal."""
    for number, message in enumerate(messages, 1):
        if (size := len(message.properties)) > props.MAX_SENT_BYTES:
            which = f"message {number} of {len(messages)}, which are stored together or not at all: "
            raise PropertiesTooLarge(f"{which if len(messages) > 1 else ''}{properties_too_long(size)}")


def _joined(topic: TopicConfig, queue_id: int, messages: list[StoreMessage], before: list[BatchEntry]) -> bytes | None:
    """Return the body of an inner batch of *messages*, or None if they equal the entries *before* interception.

    Raises:
        MessageIllegal: an interceptor moved one of them to another queue.
    """
    for number, message in enumerate(messages):
        if (message.topic, message.queue_id) != (topic.name, queue_id):
            raise MessageIllegal(
                f"message {number} of a batch for topic {topic.name} would go to {message.topic}/{message.queue_id}, "
                "but the batch is one record; send the messages one by one"
            )
    after = [BatchEntry(each.flag, each.body, each.properties) for each in messages]
    return encode_batch(after) if after != before else None
