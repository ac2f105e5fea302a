"""The checks of a send request and the creation of its messages.

Order and codes of the checks are RocketMQ's. The stored properties are the client's plus MSG_REGION, TRACE_ON, CLUSTER
and, if missing, UNIQ_KEY; POP_CK is removed. They are in the order of Java's HashMap, so that records equal Java's byte
for byte. Entries of a client batch keep their own text, and the batch's properties are appended without a UNIQ_KEY,
which would hide those of the entries (clients before 5.0 send none). `gantrymq.broker.sending.queue_targets` selects
the queues.

`gantrymq.broker.wire.send_templates` caches the result of the checks for sends that are alike. Their headers are too
short for properties of a length that is refused.

Source: apache/rocketmq broker/.../processor/SendMessageProcessor.java, AbstractSendMessageProcessor.java (msgCheck).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gantrymq.broker.identity import BrokerIdentity
from gantrymq.broker.sending.batches import Batches
from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.priorities import place_by_priority
from gantrymq.broker.sending.queue_targets import DELAYS, TargetSelector, refuse_delays
from gantrymq.broker.sending.stored_properties import PropertyTemplate, StoredProperties, properties_too_long
from gantrymq.broker.sending.transactions import Stored, Transactions
from gantrymq.broker.tables import Tables
from gantrymq.config import Settings
from gantrymq.errors import (
    BodyEmpty,
    InvalidParameter,
    MessageIllegal,
    NoPermission,
    NotWritable,
    PropertiesTooLarge,
    RequestRefused,
)
from gantrymq.interfaces import MessageBatch, MovedMessage, SendRequest, StoreMessage
from gantrymq.model import names, sys_flag
from gantrymq.model import properties as props
from gantrymq.model.access import Resource
from gantrymq.model.group import GroupConfig
from gantrymq.model.hosts import format_address
from gantrymq.model.ids import UniqueIds
from gantrymq.model.topic import PERM_WRITE, TopicConfig
from gantrymq.world import World

_RETRIED = re.compile(rb"(?:\A|\x02)%b\x01" % props.RETRY_TOPIC.encode())
"""Marks a retried message, which may use the space that is reserved for the properties of retries."""

HONOURS_MAX_RECONSUME = 121  # first client protocol version (3.4.9) whose maxReconsumeTimes is used


class PreparedSend(NamedTuple):
    """Messages that passed the checks, and values for the response."""

    messages: Sequence[StoreMessage]
    queue_id: int
    unique_id: str | None  # None for a batch of an old client, whose entries have their own ids
    batch_id: str | None = None  # id of an inner batch; shows the client that its messages are one record
    fields: Mapping[str, str] | None = None  # extra fields for the response header


class Sender(NamedTuple):
    """What access control needs to know about sends that are alike."""

    access_key: str
    request: int  # code
    resource: Resource


class SendTemplate(NamedTuple):
    """The result of the checks, valid for all sends that are alike."""

    topic: TopicConfig
    queues: int  # queue ids below this number are valid
    flags: int
    flag: int
    reconsume_times: int
    property_template: PropertyTemplate
    special: dict[str, str] | None  # properties that need more than plain queueing
    revision: int  # settings revision
    sender: Sender | None = None  # with access control
    halves: bool = False  # the messages are half messages that can be prepared together


class SendPreparation:
    """Checks send requests and creates the messages to store."""

    def __init__(
        self,
        world: World,
        settings: Settings,
        identity: BrokerIdentity,
        tables: Tables,
        interceptors: InterceptorChain,
        target_selector: TargetSelector,
        transactions: Transactions | None,
    ) -> None:
        self._world = world
        self._settings = settings
        self._topics = tables.topics
        self._groups, self._locks, self._stats, self._access = tables.groups, tables.locks, tables.stats, tables.access
        self._interceptors = interceptors
        self.sees_all = bool(interceptors.of_all)  # an interceptor must be called for every message
        self._unserved = tuple(name for name in DELAYS if name not in interceptors.names)
        self._transactions = transactions
        self._unique_ids = UniqueIds(
            identity.packed_host[:-4], world.process_id, world.random.getrandbits(32), world.clock
        )
        self._cluster = identity.cluster
        self._accept_from_ms = settings.number("startAcceptSendRequestTimeStamp")
        self._store_host = identity.packed_host
        self._name_passed: set[str] = set()  # existing topics whose name was checked
        self._random = world.random.randrange
        self._target_selector = target_selector
        self._batches = Batches(settings, self._target_selector, interceptors, identity.packed_host)
        self._read_settings()

    def forget(self, topic: str) -> None:
        """Remove a deleted topic from the caches."""
        self._name_passed.discard(topic)

    def _read_settings(self) -> None:
        """Read the settings that may change at runtime."""
        settings = self._settings
        self._revision = settings.revision
        self._writable = bool(settings.number("brokerPermission") & PERM_WRITE)
        self._properties = StoredProperties(
            {
                props.MSG_REGION: settings.text("regionId"),
                props.TRACE_ON: "true" if settings.flag("traceOn") else "false",
                props.CLUSTER: self._cluster,
            },
            self._interceptors.names,
        )

    def prepare(self, request: SendRequest) -> PreparedSend:
        """Check a send and create its messages.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
        """
        body = request.body
        if not body:
            raise BodyEmpty(
                f"the message from {format_address(*request.peer)} has no body; a body of 1 byte or more is needed"
            )
        topic = self.topic_of(request)
        if not request.born_host:
            now_ms = request.born_timestamp or self._world.clock.now_ms()
            request = request._replace(born_host=self._store_host, born_timestamp=now_ms)
        queue_id = request.queue_id
        # RocketMQ's AbstractSendMessageProcessor (msgCheck) accepts ids below the larger of both numbers.
        if queue_id >= topic.write_queues and queue_id >= topic.read_queues:
            raise InvalidParameter(
                f"queueId {queue_id} is outside topic {topic.name}, which has {topic.write_queues} write and "
                f"{topic.read_queues} read queues (sent by {format_address(*request.peer)})"
            )
        if queue_id < 0:
            queue_id = self._random(topic.write_queues) if topic.write_queues > 0 else 0
        if props.PRIORITY in request.properties and not request.batch:
            request, queue_id = place_by_priority(request, topic, queue_id)
        if topic.name.startswith(names.RETRY_PREFIX) and self._is_dead(request):
            own = {**props.decode_text(request.properties), props.DELAY: "-1"}
            request = request._replace(properties=props.encode_text(own))
            self._stats.dead_letters[request.topic, _group_of(request)] += 1
            topic, queue_id = self._topics.create_retry(names.dead_letter_topic(_group_of(request)), 1), 0
        flags = request.sys_flag
        if topic.filter_type == "MULTI_TAG":
            flags |= sys_flag.MULTI_TAGS
        if request.batch:
            envelope = self._properties.envelope(request.properties)
            _refuse_half(request, envelope)
            unique_id = envelope.get(props.UNIQ_KEY)
            messages = self._batches.messages(request, topic, queue_id, flags, envelope)
            inner = type(messages) is not MessageBatch and messages[0].sys_flag & sys_flag.INNER_BATCH
            return PreparedSend(messages, queue_id, unique_id, unique_id if inner else None)
        stored = self._properties.rewrite(request.properties)
        if not stored.unique_id:
            stored = self._properties.rewrite(request.properties, self._unique_ids.next())
        if flags & sys_flag.TRANSACTION_PREPARED:
            _refuse_half(request, stored.special or {})
        message = StoreMessage(
            topic.name,
            queue_id,
            body,
            stored.text,
            tags_code=stored.tags_code,
            flag=request.flag,
            sys_flag=flags,
            born_timestamp=request.born_timestamp,
            born_host=request.born_host,
            store_host=self._store_host,
            reconsume_times=request.reconsume_times,
            wait_stored=stored.wait_stored,
        )
        message = self.complete(message, topic, stored.special)
        fields = message.answer_fields if type(message) is MovedMessage else None
        return PreparedSend((message,), queue_id, stored.unique_id, None, fields)

    def complete(self, message: StoreMessage, topic: TopicConfig, special: dict[str, str] | None) -> StoreMessage:
        """Apply interceptors or the transaction service to *message* and set its queue targets.

        *special*: the properties if some of them need more than plain queueing. Raises RequestError.
        """
        light = 0
        given = message.properties
        if special is not None:
            self._target_selector.assign(message, topic, special)  # refuse before an interceptor moves the message
            light = len(message.queue_targets.light) if message.queue_targets else 0
            message.queue_targets = None
        if special is not None and _is_half(message, special):
            message = self._half(message)
        else:
            message = self._interceptors.apply(message, special)
            if (special is not None or topic.attributes) and message.topic == topic.name:
                if special is not None and message.properties is not given:
                    special = props.decode(message.properties)  # an interceptor may have named light queues
                refuse_delays(special or {}, self._unserved)
                self._target_selector.assign(message, topic, special or {})
                light = len(message.queue_targets.light) if message.queue_targets else 0
        size = len(message.properties) + props.LIGHT_QUEUE_BYTES * light
        if size > props.MAX_SENT_BYTES and not _RETRIED.search(message.properties):
            raise PropertiesTooLarge(properties_too_long(size))
        return message

    def template_for(self, request: SendRequest) -> SendTemplate | None:
        """Return the template of a checked *request*, or None if sends like it must be checked each time."""
        topic = self._topics.get(request.topic)
        property_template, special = self._properties.template(request.properties)
        if (
            topic is None
            or property_template is None
            or request.batch
            or (special is None and request.sys_flag & sys_flag.TRANSACTION_MASK)
            or topic.name.startswith(names.RETRY_PREFIX)
            or topic.has_batch_queues
            or self._accept_from_ms
        ):
            return None
        flags = request.sys_flag | (sys_flag.MULTI_TAGS if topic.filter_type == "MULTI_TAG" else 0)
        queues = max(topic.write_queues, topic.read_queues)
        halves = self._are_halves(special, flags)
        return SendTemplate(
            *(topic, queues, flags, request.flag, request.reconsume_times, property_template, special, self._revision),
            halves=halves,
        )

    def _are_halves(self, special: dict[str, str] | None, flags: int) -> bool:
        """Return whether messages with these special properties can be completed by `complete_halves`."""
        return (
            special == {props.TRAN_MSG: "true"}
            and self._transactions is not None
            and self._transactions.batches
            and not self.sees_all
            and not flags & sys_flag.INNER_BATCH
            and not self._settings.flag("rejectTransactionMessage")
        )

    def complete_halves(self, messages: Sequence[StoreMessage], unique_ids: Sequence[bytes]) -> Stored | None:
        """Change messages of one template with `halves` into half messages, as `complete` does for each.

        Returns:
            The function to call with the results when they are stored. None if they have to be completed one by one,
            unchanged.

        Raises:
            PropertiesTooLarge: one has too many properties; the messages must be made again and checked one by one.
        """
        assert self._transactions is not None
        stored = self._transactions.prepare_together(messages, unique_ids)
        if stored is None:
            return None
        size = max([len(message.properties) for message in messages])
        if size > props.MAX_SENT_BYTES:
            raise PropertiesTooLarge(properties_too_long(size))
        return _ignore if self._interceptors.asks_for(messages[0].properties) else stored

    # --- checks -----------------------------------------------------------------------------------------------------

    def topic_of(self, request: SendRequest) -> TopicConfig:
        """Return the topic of a send, creating it if allowed. Raises RequestError like `prepare`."""
        if request.principal is not None:
            self._access.check_send(request.principal, request.topic)
        if self._settings.revision != self._revision:
            self._read_settings()
        name = request.topic
        if self._accept_from_ms and self._world.clock.now_ms() < self._accept_from_ms:
            raise RequestRefused(
                1,
                f"this broker takes no message before {self._accept_from_ms} ms (startAcceptSendRequestTimeStamp)",
            )
        known = self._topics.get(name)
        if not self._writable and known is not None and known.order:
            raise NotWritable(f"this broker's brokerPermission forbids writing to the ordered topic {name}")
        if known is None or name not in self._name_passed:
            known = self._checked_topic(request)
            self._name_passed.add(name)
        return known

    def _checked_topic(self, request: SendRequest) -> TopicConfig:
        names.check_topic(request.topic)
        if request.topic in names.NOT_SENDABLE:
            raise NoPermission(f"topic {request.topic} belongs to the broker itself; clients may not send to it")
        return self._topics.for_send(
            request.topic,
            request.default_topic,
            request.default_topic_queues,
            unit=request.unit_mode,
            peer=format_address(*request.peer),
        )

    def _is_dead(self, request: SendRequest) -> bool:
        """Return whether a message for a retry topic is a dead letter: too many failures, or an ordered consumer."""
        if request.batch:
            raise MessageIllegal(f"a batch cannot go to the retry topic {request.topic}; send the messages one by one")
        group = self._groups.require(_group_of(request))
        most = most_tries(group, request.max_reconsume_times, request.client_version)
        return request.reconsume_times > most or self._locks.any_held(group.name)

    def _half(self, message: StoreMessage) -> StoreMessage:
        if self._settings.flag("rejectTransactionMessage"):
            raise NoPermission("this broker is set to refuse transactional messages (rejectTransactionMessage=true)")
        if self._transactions is None:
            raise NoPermission(
                "transactional messages need a transaction plugin and none is installed; send the message without a "
                "transaction"
            )
        return self._transactions.prepare(message)


def _ignore(_: object) -> None:
    """Do nothing with the results of half messages."""


def most_tries(group: GroupConfig, wanted: int | None, client_version: int) -> int:
    """Return the maximum number of retries: the group's, or that of the request if the client version supports it."""
    return group.retry_max_times if wanted is None or client_version < HONOURS_MAX_RECONSUME else wanted


def _group_of(request: SendRequest) -> str:
    return request.topic[len(names.RETRY_PREFIX) :]


def _is_half(message: StoreMessage, own: dict[str, str]) -> bool:
    """Return whether this is a half message. Clients before 4.6.1 keep the mark on messages that they send to retry."""
    level = own.get(props.DELAY, "0")
    retried = message.reconsume_times > 0 and level != "0" and not level.startswith("-")
    return own.get(props.TRAN_MSG) == "true" and not retried


def _refuse_half(request: SendRequest, own: dict[str, str]) -> None:
    """Refuse inconsistent marks. A Java broker acknowledges such a message but never makes it visible."""
    if request.sys_flag & sys_flag.TRANSACTION_PREPARED and own.get(props.TRAN_MSG) != "true":
        raise MessageIllegal(
            f"sysFlag {request.sys_flag} marks a half or a rolled-back message and TRAN_MSG is not true; send it "
            "without the transaction bits (4 and 8)"
        )
