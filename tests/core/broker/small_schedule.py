"""A minimal implementation of delay levels: an interceptor and a service, for tests that need them."""

from __future__ import annotations

import asyncio

from gantrymq.formats.record import iter_records
from gantrymq.formats.tags_code import DEFAULT_DELAY_LEVELS, parse_delay_levels, tags_code
from gantrymq.interfaces import GetLimit, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.java import ordered_text
from gantrymq.model.names import SCHEDULE_TOPIC
from gantrymq.model.queue import Queue

LEVELS_MS = parse_delay_levels(DEFAULT_DELAY_LEVELS)


class SmallSchedule:
    """Keeps a message in the schedule topic until its delay is over; `levels` records the levels."""

    name = "small schedule"
    order = 5

    def __init__(self, levels_ms=LEVELS_MS):
        self.levels_ms = levels_ms
        self.levels = []
        self.delivers = False  # the next message comes from the schedule topic

    def __call__(self, message):
        own = props.decode(message.properties)
        level = int(own.get(props.DELAY, "0"))
        if level <= 0 or self.delivers:
            self.delivers = False
            return message
        self.levels.append(level)
        own.update(REAL_TOPIC=message.topic, REAL_QID=str(message.queue_id))
        message.topic, message.queue_id = SCHEDULE_TOPIC, min(level, len(self.levels_ms)) - 1
        message.properties = ordered_text(own)
        return message

    async def start(self, broker):
        self.broker = broker
        self.stop_hearing = broker.messages.on_arrival(self.arrived)
        self.seen = {}

    async def stop(self):
        self.stop_hearing()

    def arrived(self, queue, end):
        if queue.topic == SCHEDULE_TOPIC:
            for at in range(self.seen.get(queue, 0), end):
                self.broker.world.clock.call_later(self.levels_ms[queue.queue_id] / 1000, self.due, queue, at)
            self.seen[queue] = end

    def due(self, queue, at):
        self.delivering = asyncio.ensure_future(self.deliver(queue, at))

    async def deliver(self, queue: Queue, at: int):
        found = await self.broker.messages.get(queue, at, GetLimit(1))
        (record,) = iter_records(b"".join(map(bytes, found.buffers)))
        own = record.properties
        self.delivers = True
        await self.broker.messages.put(
            StoreMessage(
                own["REAL_TOPIC"],
                int(own["REAL_QID"]),
                bytes(record.body),
                bytes(record.properties_bytes),
                tags_code=tags_code(own.get(props.TAGS)),
                flag=record.flag,
                sys_flag=record.sys_flag,
                born_timestamp=record.born_timestamp,
                born_host=bytes(record.born_host),
                store_host=bytes(record.store_host),
                reconsume_times=record.reconsume_times,
            )
        )
