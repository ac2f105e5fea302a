"""Entries of a queue with their bits: request 321, sent by ``mqadmin queryCq``.

Replaces core's handler, which knows neither bits nor filters of groups. For an online group the answer contains its
filter and, for each entry with an ext unit, whether the group's bits pass it.

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (queryConsumeQueue),
filter/.../util/BitsArray.java (toString).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from gantrymq.errors import InvalidParameter, RequestRefused, ServiceNotAvailable
from gantrymq.plugin.config_files import pretty
from gantrymq.plugin.formats import RecordView, delay_levels_of, iter_records, tags_code_of
from gantrymq.plugin.headers import QueryConsumeQueueRequest
from gantrymq.plugin.interfaces import Broker, BrokerConsumers, BrokerStorage, ExtUnit, GetLimit, GetResult
from gantrymq.plugin.loose_json import Items, dumps
from gantrymq.plugin.model import TAG, Action, Queue, Subscription
from gantrymq.plugin.remoting import Command, Connection, RequestCode, SlicedResponses, serves
from gantrymq_filter_sql92.bitmap.filter_data import FilterData

_MAX_ENTRIES: Final = 1000  # entries per answer; RocketMQ has no limit
_READ_AT_ONCE: Final = 32
_BYTES_A_LINE: Final = 8  # of a printed map

Passes = Callable[[ExtUnit], bool]


class QueueEntries:
    """Answers requests for queue entries from `start` to `stop`."""

    def __init__(self, data: Callable[[str, str], FilterData | None]) -> None:
        """*data*: return the filter data of a topic and group."""
        self._data = data
        self._running: tuple[Broker, SlicedResponses] | None = None

    def start(self, broker: Broker) -> None:
        """Answer requests about the queues of *broker*."""
        self._running = broker, SlicedResponses(broker.world.clock)

    def stop(self) -> None:
        """Refuse requests."""
        self._running = None

    @serves(RequestCode.QUERY_CONSUME_QUEUE, action=Action.GET, topic="topic", group="consumerGroup")
    async def entries(self, asked: Command, connection: Connection) -> Command:
        """Answer 321: up to *count* entries from *index* on, with subscription and filter if a group is named.

        Entries are read from the records they point at: entries without a record are left out.
        """
        if self._running is None:
            raise ServiceNotAvailable("the broker is stopping; ask again when it is back")
        broker, responses = self._running
        header = QueryConsumeQueueRequest.from_ext(asked.ext)
        topic = broker.topics.get(header.topic or "")
        if topic is None or not 0 <= header.queue_id < max(topic.read_queues, topic.write_queues):
            raise RequestRefused(1, f"{header.queue_id}@{header.topic} is not exist!")
        if header.index < 0 or header.count < 0:
            raise InvalidParameter(f"index {header.index} and count {header.count} may not be negative")
        queue = Queue(topic.name, header.queue_id)
        bounds = broker.store.bounds(queue)
        body: dict[str, Any] = {"maxQueueIndex": bounds.max_offset, "minQueueIndex": bounds.min_offset}
        passes: Passes | None = None
        if header.consumer_group:
            subscription = broker.clients.subscription(header.consumer_group, topic.name)
            data = self._data(topic.name, header.consumer_group)
            if subscription is None:
                body["filterData"] = f"{header.consumer_group}@{topic.name} is not online!"
            else:
                body["subscriptionData"] = subscription.to_json()
                body["filterData"] = "null" if data is None else pretty(data.to_json())
                passes = _passes(broker, subscription, data)
        entries = _entries(broker, queue, header.index, min(header.count, _MAX_ENTRIES))
        body["queueData"] = Items([_told(*entry, passes) async for entry in entries])
        return await responses.make(asked, connection, body)


def _passes(broker: BrokerConsumers, subscription: Subscription, data: FilterData | None) -> Passes:
    """Return the result of the group's entry filter for an entry."""
    if subscription.type == TAG:
        match = broker.filters.compiled(subscription)
        return lambda unit: match.accepts_all or match.match_entry(unit.tags_code, unit)
    return lambda unit: data is None or data.may_match(unit.bits, unit.store_timestamp) is not False


def _told(record: RecordView, tags_code: int, unit: ExtUnit | None, passes: Passes | None) -> dict[str, Any]:
    """Return the members of one entry."""
    entry_members = {"physicOffset": record.log_offset, "physicSize": record.total_size, "tagsCode": tags_code}
    if unit is None:
        return {**entry_members, "eval": False}
    entry_members["eval"] = passes is not None and passes(unit)
    members = {"msgStoreTime": unit.store_timestamp, "size": unit.size, "tagsCode": unit.tags_code}
    if not unit.bits:
        return {**entry_members, "extendDataJson": dumps(members).decode()}
    with_bits = {"filterBitMap": b64encode(unit.bits).decode(), **members}
    return {**entry_members, "extendDataJson": dumps(with_bits).decode(), "bitMap": _printed(unit.bits)}


def _printed(bits: bytes) -> str:
    """Format a bit map: the highest bit first, eight bytes per line."""
    return "".join(f"{bits[at]:08b}" + ("" if at % _BYTES_A_LINE else "\n") for at in range(len(bits) - 1, -1, -1))


class _Looking:
    """Passes every entry and collects its ext unit, in order; some units may occur twice."""

    accepts_all = False
    needs_message = False

    def __init__(self) -> None:
        self.seen: list[ExtUnit] = []

    def match_entry(self, tags_code: int, ext: ExtUnit | None) -> bool:
        if ext is not None:
            self.seen.append(ext)
        return True

    def match_message(self, record: RecordView) -> bool:
        return True


async def _entries(
    broker: BrokerStorage, queue: Queue, queue_offset: int, count: int
) -> AsyncIterator[tuple[RecordView, int, ExtUnit | None]]:
    """Yield records from *queue_offset* on, each with the tags code and the ext unit of its entry."""
    levels_ms = delay_levels_of(broker.settings)
    while count > 0:
        looking = _Looking()
        found = broker.store.get(queue, queue_offset, GetLimit(min(count, _READ_AT_ONCE)), looking)
        result = found if isinstance(found, GetResult) else await found
        at = 0
        for buffer in result.buffers:
            for record in iter_records(buffer):
                tags_code = tags_code_of(record.topic, record.properties, record.store_timestamp, levels_ms)
                of_record = (tags_code, record.store_timestamp)
                place = next((i for i in range(at, len(looking.seen)) if looking.seen[i][:2] == of_record), None)
                yield record, tags_code, None if place is None else looking.seen[place]
                at = at if place is None else place + 1
        if not result.count:
            return
        count -= result.count
        queue_offset = result.next_offset
