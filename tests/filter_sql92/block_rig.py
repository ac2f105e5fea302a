"""A store on a simulated disk, groups that read it with block filters, and events that change it."""

import asyncio
import random
from contextlib import suppress
from inspect import isawaitable
from pathlib import Path

from gantrymq.config import Setting, Settings
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import Cleaning, GetLimit, StoreContext, StoreMessage
from gantrymq.model.queue import Queue
from gantrymq_filter_sql92 import block_filters
from gantrymq_filter_sql92.block_filters import BlockFilters
from gantrymq_filter_sql92.expression import compiled
from gantrymq_filter_sql92.filter import MatchingMessages
from gantrymq_filter_sql92.skipping import SkippingMessages, required_keys
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing.simulated.file import SimulatedFile

ROOT = Path("/store")
ENTRIES = 8  # of a block in these tests
T0, T1 = Queue("T", 0), Queue("T", 1)
KEYS = (*SCHEMA, Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"))
LIMIT = GetLimit(20)
PROPERTIES = (
    b"a\x01x\x02",
    b"a\x01y\x02b\x01p\x02",
    b"b\x01q\x02a\x01z\x02",
    b"a\x011\x02",
    b"b\x01p\x02a\x01+01\x02",
    b"b\x01p\x02a\x011.0",
    b"a\x01x\x02a\x01y\x02",
    b"b\x01\x02a\x01x\x02a\x01\x02",
    b"xa\x01x\x02b\x01a\x01y\x02",
    b"b\x01a\x01z\x02xa\x01y\x02",
    b"a\x01" + b"long" * 500 + b"\x02",
    b"a\x01Gr\xc3\xbc\xc3\x9fe\x02",
    b"a\x01\xff\x02",
    b"A\x01x\x02",
    b"",
)
EXPRESSIONS = (
    "a = 'x'",
    "a = 'y'",
    "a IN ('x', 'z')",
    "a = 1",
    "a = 1.0 OR a = 'z'",
    "a = 'Grüße' AND b IS NULL",
    f"a = '{'long' * 500}'",
    "b = 'p'",
    "b = 'q' AND NOT a = 'x'",
    "a = 'X'",
    "a = 'nobody' OR a IN ('x')",
)


def small_blocks(monkeypatch, rng, entries=ENTRIES):
    """Make blocks short, and files sometimes cached by the system."""
    monkeypatch.setattr(block_filters, "BLOCK_ENTRIES", entries)
    monkeypatch.setattr(block_filters, "STEP_ENTRIES", entries // 2)

    def pread_cached(file, length, position):
        return file.pread(length, position) if rng.random() < 0.9 else None

    monkeypatch.setattr(SimulatedFile, "pread_cached", pread_cached)


class BlockRig:
    """Everything happens in queues T/0 and T/1."""

    def __init__(self, world, seed=0, **settings):
        self.world, self.rng = world, random.Random(seed)
        pick = self.rng.choice
        sizes = {
            "mappedFileSizeCommitLog": 32_768,
            "mappedFileSizeConsumeQueue": 400,
            "hotReadWindow": pick((0, 1 << 28)),
            "logBlockCacheBytes": pick((0, 18 << 20)),
            "maxFilterMessageSize": pick((500, 16_000)),
            "fileReservedTime": 0,
            "flushIntervalConsumeQueue": 10,
        }
        self.settings = Settings(KEYS, sizes | settings)
        self.filters = BlockFilters()
        self.filters.limit(pick((20_000, 1 << 20)), pick((1, 3, 64)))

    async def start(self):
        self.store = MmapStore(StoreContext(self.world, ROOT, self.settings, lambda sentence: None))
        await self.store.start()

    async def put(self, *texts, queue_id=0, body=b"body"):
        results = self.store.put([StoreMessage("T", queue_id, body, text) for text in texts])
        await self.store.flushed(results[-1].end)
        self.store.publish(results[-1].end)

    def filter_of(self, text):
        expression = compiled(text)
        required = required_keys(expression.tree)
        return SkippingMessages(expression, required, lambda: self.filters) if required else self.plain_of(text)

    def plain_of(self, text):
        return MatchingMessages(compiled(text))

    async def read(self, match, queue=T0, offset=None):
        """Return the queue offsets of the messages from *offset* on, by default from the start of the queue on."""
        found, bounds = [], self.store.bounds(queue)
        offset = bounds.min_offset if offset is None else offset
        while offset < self.store.bounds(queue).max_offset:
            got = self.store.get(queue, offset, LIMIT, match)
            if isawaitable(got):
                got = await got
            assert got.next_offset > offset, got
            found += [record.log_offset for buffer in got.buffers for record in iter_records(buffer)]
            offset = got.next_offset
        return found

    # --- events -----------------------------------------------------------------------------------------------------

    async def messages(self):
        few, queue_id = self.rng.sample(PROPERTIES, self.rng.choice((1, 1, 2, 5))), self.rng.choice((0, 0, 1))
        body = self.rng.choice((b"body", b"", b"\x02a\x01y\x02", bytes(400)))
        await self.put(*(self.rng.choice(few) for _ in range(self.rng.randrange(1, 40))), queue_id=queue_id, body=body)

    async def reading(self):
        queue, bounds = T0, self.store.bounds(T0)
        offset = self.rng.choice((None, None, self.rng.randrange(bounds.min_offset, bounds.max_offset + 1)))
        with suppress(AssertionError):  # another event may remove its place meanwhile
            await self.read(self.filter_of(self.rng.choice(EXPRESSIONS)), queue, offset)

    async def truncation(self):
        log = self.store.raw_log
        starts = [entry.log_offset for entry in self.store.scan(*log.log_range())]
        if starts:
            at = self.rng.choice(starts[len(starts) // 2 :])
            await (log.truncate if self.rng.random() < 0.7 else self.hiding)(at)
            await self.messages()

    async def hiding(self, log_offset):
        log = self.store.raw_log
        await log.hide(log_offset)
        log.limit_visibility(None)
        self.store.publish(log.log_range().max_offset)

    async def deletion(self):
        await self.store.drop("T")

    async def retention(self):
        await self.world.clock.sleep(1)
        await self.store.clean(Cleaning.EXPIRED_LOG)
        await self.world.clock.sleep(5)

    async def rebuilding(self):
        """Entries in files are damaged; a reader without a filter finds out."""
        await self.world.clock.sleep(120)  # until a checkpoint: entries in memory are not read from files
        folder = ROOT / "consumequeue" / "T" / "0"
        names = self.world.files.list(folder) if self.world.files.stat(folder) is not None else []
        if names:
            file = self.world.files.open(folder / self.rng.choice(names))
            file.pwrite(self.rng.choice((bytes(100), b"\xff" * 40)), self.rng.randrange(15) * 20)
            file.close()
        await self.reading()
        await self.read(None)

    async def restart(self):
        await self.store.stop()
        await self.start()

    async def run(self, steps):
        """Let things happen; after each, every expression must find what it finds without block filters."""
        await self.start()
        happenings = [self.messages] * 6 + [self.reading] * 6 + [self.truncation] * 2
        happenings += [self.deletion, self.retention, self.rebuilding, self.restart]
        for _ in range(steps):
            happening = self.rng.choice(happenings)
            others = [self.reading() for _ in range(self.rng.randrange(3))] if happening != self.restart else []
            await asyncio.gather(happening(), *others)
            await self.check()
        await self.store.stop()
        await self.world.workers.close()

    async def check(self):
        for queue in (T0, T1):
            for text in self.rng.sample(EXPRESSIONS, 2):
                right = await self.read(self.plain_of(text), queue)
                found = await self.read(self.filter_of(text), queue)
                assert found == right, (queue, text)
