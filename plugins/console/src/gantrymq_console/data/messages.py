"""One message: lookup by its ids, and all facts that are recorded about it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from gantrymq.client import ReceivedMessage
from gantrymq.client.admin import AnswerUnreadable
from gantrymq.errors import BrokerRefused, CallTimeout, InvalidParameter, NoMessageFound, NoRoute
from gantrymq.plugin import properties as props
from gantrymq.plugin.formats import MAX_BODY_BYTES, decompressed_parts, iter_records
from gantrymq.plugin.model import ALL, TAG, MessageQueue, format_address, is_offset_id, parse_offset_id
from gantrymq.plugin.names import DLQ_PREFIX, HALF_TOPIC, RETRY_PREFIX, SCHEDULE_TOPIC, TIMER_TOPIC
from gantrymq.plugin.remoting import ResponseCode
from gantrymq_admin.asking import Asking
from gantrymq_console.data.cluster import HEAD_BYTES, BrokerAddress, Cluster, readable_of, route_of
from gantrymq_console.values import Long

_PART_BYTES: Final = 256 * 1024  # of a body that are decompressed at a time for a download
_NO_QUEUE: Final = (
    ResponseCode.SYSTEM_ERROR,
    InvalidParameter.response_code,
)  # pulls from a missing queue
_WAITING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC)  # of messages that their topic does not have yet


@attrs.frozen
class MessageDetails:
    """Everything recorded of a message except its body."""

    topic: str
    unique_id: str  # of the client; empty if it gave none
    offset_id: str
    broker: str
    queue_id: int
    queue_offset: Long
    log_offset: Long
    record_bytes: Long
    body_bytes: Long
    is_shortened: bool  # whether *body_bytes* are only the beginning, the rest of the body was not decompressed
    body_crc: Long
    keys: str
    tags: str
    born_ms: int
    born_host: str
    stored_ms: int
    store_host: str
    failures: int  # reconsumeTimes
    flag: int
    sys_flag: int
    user_properties: Mapping[str, str]
    system_properties: Mapping[str, str]
    group: str  # the group of a retry or dead letter; empty for other messages


def details_of(message: ReceivedMessage) -> MessageDetails:
    """Return the recorded facts of *message*."""
    return MessageDetails(
        message.topic,
        message.properties.get("UNIQ_KEY", ""),
        message.offset_id,
        message.broker_name,
        message.queue_id,
        Long(message.queue_offset),
        Long(message.log_offset),
        Long(message.store_size),
        Long(len(message.body)),
        message.is_shortened,
        Long(message.body_crc & 0xFFFFFFFF),
        message.keys or "",
        message.tags or "",
        message.born_timestamp,
        message.born_host,
        message.store_timestamp,
        message.store_host,
        message.reconsume_times,
        message.flag,
        message.sys_flag,
        message.user_properties,
        message.system_properties,
        _group_of(message.topic),
    )


async def by_id(
    cluster: Cluster, asking: Asking, topic: str, message_id: str, at: str = "", body_bytes: int = HEAD_BYTES
) -> tuple[ReceivedMessage, ...]:
    """Return the messages with an offset id, or with a client's unique id in *topic*; several if it was sent twice.

    A message that is delayed, or whose transaction is undecided, is found where it waits. Brokers that do not answer in
    their share of the time are in `Asking.missing` if others have the message.

    Args:
        cluster: where they are.
        asking: has the deadline.
        topic: of the messages; may be empty for an offset id.
        message_id: one of the two ids.
        at: ``broker:queue:offset`` of a message that no id finds: one of an inner batch, which has one offset id, and
            whose unique ids are not in the index.
        body_bytes: how much of a compressed body is decompressed; see `whole`.

    Raises:
        NoMessageFound: all brokers answered, and none has such a message.
        CallTimeout: none of the brokers that answered has it.
        ClientError: of the requests.
    """
    if at:
        return (await asking.needed(_at(cluster, topic, message_id, at, body_bytes)),)
    found = await asking.needed(by_offset_id(cluster, message_id, body_bytes))
    if found is not None:
        return (found,)
    messages = await _by_unique_id(cluster, asking, topic, message_id, body_bytes, 0.5) if topic else ()
    if not messages:
        messages = await elsewhere(cluster, asking, message_id, body_bytes, 0.5)
    if not messages and topic:
        waiting = await asyncio.gather(
            *(_waiting(cluster, asking, each, topic, message_id, body_bytes) for each in _WAITING_TOPICS)
        )
        messages = next((each for each in waiting if each), ())
    if not messages and asking.missing:
        unknown = "; ".join(sorted({f"{each.what}: {each.sentence}" for each in asking.missing}))
        of_topic = f" of topic {topic}" if topic else ""
        raise CallTimeout(f"no broker that answered has a message {message_id}{of_topic}; {unknown}")
    if not messages and not topic:
        raise NoMessageFound(f"no broker has a message with the offset id {message_id}")
    if not messages:
        raise NoMessageFound(f"topic {topic} has no message with the unique id {message_id}")
    return messages


def found_by_unique_id(message: ReceivedMessage, message_id: str, asking: Asking) -> bool:
    """Return whether `by_id` returned *message* because all brokers of its topic were asked for its unique id."""
    return not asking.missing and message.properties.get(props.UNIQ_KEY) == message_id != message.offset_id


async def _by_unique_id(
    cluster: Cluster, asking: Asking, topic: str, unique_id: str, body_bytes: int, share: float
) -> tuple[ReceivedMessage, ...]:
    route = await route_of(cluster, asking, topic)

    async def ask(broker: str, address: str) -> tuple[ReceivedMessage, ...]:
        try:
            return await cluster.admin.query_unique(
                topic, unique_id, broker=broker, address=address, max_body_bytes=body_bytes
            )
        except NoMessageFound:
            return ()

    answers = await asking.all({name: ask(name, address) for name, address in readable_of(route).items()}, share)
    found = [message for each in answers.values() for message in each]
    return tuple(sorted(found, key=lambda each: each.store_timestamp))


async def _waiting(
    cluster: Cluster, asking: Asking, where: str, topic: str, unique_id: str, body_bytes: int
) -> tuple[ReceivedMessage, ...]:
    """Return messages with the id that wait in a system topic and will go to *topic*."""
    try:
        found = await _by_unique_id(cluster, asking, where, unique_id, body_bytes, 0.8)
    except NoRoute:
        return ()
    return tuple(each for each in found if each.properties.get(props.REAL_TOPIC) == topic)


async def _at(cluster: Cluster, topic: str, message_id: str, at: str, body_bytes: int) -> ReceivedMessage:
    broker, _, place = at.partition(":")
    queue_id, _, offset = place.partition(":")
    if all(each.isascii() and each.isdecimal() and len(each) < 19 for each in (queue_id, offset)):
        queue = MessageQueue(topic, broker, int(queue_id))
        reader = cluster.reader_of(body_bytes)
        try:
            result = await reader.pull(queue, int(offset), max_count=1, expression=ALL, expression_type=TAG)
        except BrokerRefused as refused:
            if refused.response_code not in _NO_QUEUE:
                raise
            raise NoMessageFound(f"{broker} has no queue {queue_id} of topic {topic}: {refused}") from refused
        for each in result.messages[:1]:
            if each.queue_offset == int(offset) and message_id in (each.message_id, each.offset_id):
                return each
    raise NoMessageFound(f"topic {topic} has no message {message_id} at {at}")


async def by_offset_id(cluster: Cluster, message_id: str, body_bytes: int = HEAD_BYTES) -> ReceivedMessage | None:
    """Return the message with an offset id from the broker that the id names; None if that has no such message.

    Only registered brokers are asked.

    Raises:
        ClientError: the broker does not answer.
    """
    broker = await named_by(cluster, message_id)
    return await _viewed(cluster, broker, message_id, body_bytes) if broker is not None else None


async def elsewhere(
    cluster: Cluster, asking: Asking, message_id: str, body_bytes: int = HEAD_BYTES, share: float = 1.0
) -> tuple[ReceivedMessage, ...]:
    """Return the messages with an offset id from the brokers that the id does not name, such as one that has moved.

    A record has its broker's address at the time when it was stored, so that another record at the same log offset is
    not taken for it. A restored copy of a store may be at a second broker.
    """
    if not is_offset_id(message_id):
        return ()
    named = await named_by(cluster, message_id)
    await cluster.brokers()  # refreshes those that are known
    masters = [each for each in cluster.known.values() if each.broker_id == 0 and each != named]
    asked = {each.name: _viewed(cluster, each, message_id, body_bytes) for each in masters}
    return tuple(each for each in (await asking.all(asked, share)).values() if each is not None)


async def named_by(cluster: Cluster, message_id: str) -> BrokerAddress | None:
    """Return the registered broker whose address is in an offset id; None without one."""
    if not is_offset_id(message_id):
        return None
    host, port, _ = parse_offset_id(message_id)
    address = format_address(host, port)
    return next((each for each in await cluster.brokers() if each.address == address), None)


async def _viewed(cluster: Cluster, broker: BrokerAddress, message_id: str, body_bytes: int) -> ReceivedMessage | None:
    try:
        found = await cluster.admin.view_message(message_id, address=broker.address, max_body_bytes=body_bytes)
    except (BrokerRefused, AnswerUnreadable):
        return None
    found.broker_name = broker.name
    return found if found.offset_id.lower() == message_id.lower() else None


async def whole(cluster: Cluster, message: ReceivedMessage) -> ReceivedMessage:
    """Return *message* with its whole body, read again if only the beginning was decompressed.

    Raises:
        NoMessageFound: it is not there any more.
        ClientError: of the request.
    """
    if not message.is_shortened:
        return message
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    reader = cluster.reader_of(MAX_BODY_BYTES)
    result = await reader.pull(queue, message.queue_offset, max_count=1, expression=ALL, expression_type=TAG)
    for each in result.messages[:1]:
        if each.log_offset == message.log_offset:
            return each
    raise _gone(message)


async def whole_parts(cluster: Cluster, message: ReceivedMessage) -> Iterator[bytes]:
    """Return the whole body in parts, of which one at a time is decompressed.

    Raises:
        FormatError: the rest of the body is damaged, or too large when it is decompressed.
        GantryError: as `whole`.
    """
    if not message.is_shortened:
        return iter((message.body,))
    record = await _record(cluster, message)
    await cluster.world.workers.run(_check_body, record.body, record.sys_flag)  # before the first part is sent
    return decompressed_parts(record.body, record.sys_flag, _PART_BYTES)


async def open_body(cluster: Cluster, message: ReceivedMessage, part_bytes: int) -> Iterator[bytes]:
    """Return the whole body in parts, read again if only the beginning was decompressed; errors come with the parts.

    Raises:
        GantryError: as `whole`.
    """
    if not message.is_shortened:
        return (message.body[at : at + part_bytes] for at in range(0, len(message.body), part_bytes))
    record = await _record(cluster, message)
    return decompressed_parts(record.body, record.sys_flag, part_bytes)


async def _record(cluster: Cluster, message: ReceivedMessage) -> Any:
    queue = MessageQueue(message.topic, message.broker_name, message.queue_id)
    found = await cluster.reader.pull_records(
        queue, message.queue_offset, max_count=1, expression=ALL, expression_type=TAG
    )
    for record in iter_records(found.records):
        if record.log_offset == message.log_offset:
            return record
        break
    raise _gone(message)


def _check_body(body: bytes | memoryview, sys_flag: int) -> None:
    """Decompress a body and drop it. Raises FormatError."""
    for _ in decompressed_parts(body, sys_flag, _PART_BYTES):
        pass


def _gone(message: ReceivedMessage) -> NoMessageFound:
    place = f"{message.broker_name}:{message.queue_id} @{message.queue_offset}"
    return NoMessageFound(f"topic {message.topic} has no message at {place} any more")


def _group_of(topic: str) -> str:
    """Return the group whose retries or dead letters *topic* holds; empty for other topics."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if topic.startswith(prefix):
            return topic.removeprefix(prefix)
    return ""
