"""A broker with only timers: its log is a list, its files are on a machine that may lose its page cache.

Messages are sent and recalled; the process is killed, the power cut, the clock set. The final log is compared with the
guarantees.
"""

import asyncio
import random
from bisect import bisect_right
from pathlib import Path
from types import SimpleNamespace

import attrs

from gantrymq.config import Settings
from gantrymq.formats.dispatch_entry import DispatchEntry
from gantrymq.formats.record import encode_record, read_record
from gantrymq.interfaces import BoundaryType, Bounds, GetResult, GetStatus, PutResult, PutStatus, StoreMessage
from gantrymq.model import properties as props
from gantrymq.model.queue import Queue
from gantrymq.model.role import Role
from gantrymq_schedule.settings import TIMER_SCHEMA
from gantrymq_schedule.timer.messages import DELETE_KEY, TIMER_QUEUE, delete_key
from gantrymq_schedule.timer.timers import Timers
from gantrymq_storage_faults.files import FaultyFiles
from gantrymq_storage_faults.plan import FaultPlan

ROOT = Path("/store")


class RigLog:
    """A commit log, and the store interface to it. Everything is published at once; `durable` follows a flush."""

    def __init__(self, clock, seeded):
        self.clock, self.random = clock, seeded
        self.records = []
        self.by_offset = {}
        self.queues_by_name = {}
        self.end = 0
        self.durable = 0
        self.listeners = []

    def append(self, message):
        queue = self.queues_by_name.setdefault(Queue(message.topic, message.queue_id), [])
        data = encode_record(
            topic=message.topic,
            queue_id=message.queue_id,
            body=message.body,
            properties=message.properties,
            queue_offset=len(queue),
            log_offset=self.end,
            store_timestamp=self.clock.now_ms(),
        )
        record = read_record(data)
        self.records.append(record)
        self.by_offset[self.end] = record
        queue.append(record)
        self.end += len(data)
        return PutResult(PutStatus.OK, len(queue) - 1, record.log_offset, len(data), record.store_timestamp)

    def cut(self, end):
        """Lose everything from *end* on."""
        self.records = [each for each in self.records if each.log_offset < end]
        self.by_offset = {each.log_offset: each for each in self.records}
        self.queues_by_name = {}
        for each in self.records:
            self.queues_by_name.setdefault(Queue(each.topic, each.queue_id), []).append(each)
        last = self.records[-1] if self.records else None
        self.end = self.durable = 0 if last is None else last.log_offset + last.total_size

    # --- as a store

    def bounds(self, queue):
        return Bounds(0, len(self.queues_by_name.get(queue, ())))

    def state(self):
        return SimpleNamespace(max_log_offset=self.end, min_log_offset=0)

    def dropped_at(self, topic):
        return 0

    def queues(self):
        return list(self.queues_by_name)

    async def offset_at(self, queue, time_ms, edge):
        assert edge is BoundaryType.UPPER
        stored = [each.store_timestamp for each in self.queues_by_name.get(queue, ())]
        return max(bisect_right(stored, time_ms) - 1, 0)

    async def flushed(self, log_offset):
        if log_offset > self.durable:
            end = self.end
            await self.clock.sleep(self.random.uniform(0, 0.05))
            self.durable = max(self.durable, min(end, self.end))

    def view(self, log_offset):
        found = self.by_offset.get(log_offset)
        return found if self.random.random() < 0.7 else self._cold(found)

    async def _cold(self, found):
        await self.clock.sleep(self.random.uniform(0, 0.002))
        return found

    def scan(self, start, end):
        for each in self.records:
            if start <= each.log_offset < end:
                text = bytes(each.properties_bytes)
                yield DispatchEntry(each.topic, each.queue_id, 0, each.log_offset, 0, 0, 0, 0, 0, text)


class RigBroker:
    """The part of a broker that timers use."""

    def __init__(self, world, log, settings):
        self.world, self.store = world, log
        self.settings = Settings(TIMER_SCHEMA, settings)
        self.log, self.root = log, ROOT
        self.registration = SimpleNamespace(broker_name="broker-a")
        self.topics = SimpleNamespace(
            get=lambda name: None,
            put=lambda topic: None,
            on_deleted=lambda callback: lambda: None,
        )
        self.role = SimpleNamespace(current=Role.MASTER)
        self.messages, self.offset_at = self, log.offset_at
        self.store_capabilities = log  # `view` and `dropped_at`

    async def get(self, queue, queue_offset, limit):
        found = self.log.queues_by_name.get(queue, [])[queue_offset : queue_offset + self.log.random.randrange(1, 5)]
        end = queue_offset + len(found)
        return GetResult(GetStatus.FOUND, end, 0, end, tuple(each.raw for each in found))

    async def put_all(self, messages, *, skip_interceptors=False):
        results = [self.log.append(message) for message in messages]
        await self.world.clock.sleep(self.log.random.uniform(0, 0.01))
        return results

    def on_arrival(self, callback, queue=None):
        self.log.listeners.append(callback)
        return lambda: self.log.listeners.remove(callback)


class SetClock:
    """A clock that may be set."""

    def __init__(self, inner):
        self._inner = inner
        self.ahead_ms = 0

    def now_ms(self):
        return self._inner.now_ms() + self.ahead_ms

    def __getattr__(self, name):
        return getattr(self._inner, name)


@attrs.define
class Promise:
    """A message that was acknowledged."""

    unique_id: str
    deliver_ms: int
    recalled: bool = False


class Rig:
    """One store through several lives of a process."""

    def __init__(self, world, machine, seed, settings=None):
        self.clock = SetClock(world.clock)
        self.world = attrs.evolve(world, clock=self.clock)
        self.machine = machine
        self.random = random.Random(seed)
        self.settings = {"mappedFileSizeTimerLog": 52 * 7 + 16, **(settings or {})}
        self.log = RigLog(self.clock, self.random)
        self.promises = {}
        self.made = 0
        self.timers = self.files = None

    async def start(self):
        self.files = FaultyFiles(self.machine, FaultPlan())
        self.log.listeners.clear()
        self.timers = Timers()
        await self.timers.start(RigBroker(attrs.evolve(self.world, files=self.files), self.log, self.settings))

    async def kill(self):
        tasks = self.timers._tasks
        self.files.crash()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def power_cut(self):
        await self.kill()
        self.machine.power_cut(rng=self.random)
        kept = [each.log_offset for each in self.log.records if each.log_offset >= self.log.durable]
        self.log.cut(self.random.choice([*kept, self.log.durable]))

    async def restart(self, how):
        if how == "stop":
            await self.timers.stop()
        elif how == "kill":
            await self.kill()
        else:
            await self.power_cut()
        await self.start()

    async def _stored(self, own):
        message = StoreMessage("A", 0, b"x", props.encode(own))
        end = self.log.append(self.timers.move(message, own)).end
        for listener in list(self.log.listeners):
            listener(TIMER_QUEUE, 0)
        await self.log.flushed(end)

    async def send(self, delay_ms):
        self.made += 1
        unique_id, deliver_ms = f"id{self.made}", self.clock.now_ms() + delay_ms
        await self._stored({"UNIQ_KEY": unique_id, "TIMER_DELIVER_MS": str(deliver_ms)})
        self.promises[unique_id] = Promise(unique_id, deliver_ms)

    async def recall(self, promise):
        slot_ms = (promise.deliver_ms - 1) // 1000 * 1000 + 1
        if slot_ms <= self.clock.now_ms():
            return
        key = delete_key("A", promise.unique_id)
        await self._stored({"UNIQ_KEY": promise.unique_id, "TIMER_DELIVER_MS": str(slot_ms), DELETE_KEY: key})
        promise.recalled = True

    def delivered(self):
        """Unique id and store time of each delivery, in order."""
        found = self.log.queues_by_name.get(Queue("A", 0), ())
        return [(each.properties["UNIQ_KEY"], each.store_timestamp) for each in found]
