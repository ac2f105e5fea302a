"""Random stores read in random ways: from memory or the disk, through blocks or record by record, filtered or not.

Every message comes exactly once, as it was stored, except those whose records were damaged.
"""

import random
from collections import defaultdict
from inspect import isawaitable

import pytest
from placed_messages import LIGHT, fanned

from gantrymq.formats.record import iter_records
from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq_testing.store_contract_bench import OnlyTags, message

SEEDS = range(4)
LONG = "%RETRY%" + "L" * 150  # records of version 2
SIZES = (0, 1, 200, 200, 200, 900, 900, 5000, 16 * 1024 - 91, 16 * 1024, 60_000, 128 * 1024 - 91, 150_000)


class OnPrice:
    """A property filter: messages with the highest prices."""

    accepts_all, needs_message, needles = False, True, ()

    def match_entry(self, tags_code, ext):
        return True

    def match_units(self, runs):
        return None

    def match_properties(self, text):
        return properties.decode(text).get("price", "") > "8"

    def match_message(self, record):
        return self.match_properties(bytes(record.properties_bytes))


class OnNeedle(OnPrice):
    """The same for one price, by search strings and by slices."""

    needles = (b"price\x017",)

    def match_properties(self, text):
        return properties.decode(text).get("price") == "7"

    def match_slice(self, texts):
        return [index for index, text in enumerate(texts) if self.match_properties(text)]


FILTERS = (
    (None, lambda record: True),
    (OnlyTags("A"), lambda record: record.properties.get("TAGS") == "A"),
    (OnPrice(), lambda record: record.properties.get("price", "") > "8"),
    (OnNeedle(), lambda record: record.properties.get("price") == "7"),
)


class Reads:
    """A store with random messages."""

    def __init__(self, rig, seed):
        self.rig, self.rng = rig, random.Random(seed)
        self.stored = defaultdict(list)  # bytes of the records of each queue
        self.damaged = set()  # log offsets
        pick = self.rng.choice
        self.log_bytes = pick((200_000, 400_000, 1 << 20))
        self.settings = {
            "mappedFileSizeCommitLog": self.log_bytes,
            "mappedFileSizeConsumeQueue": pick((400, 20_000)),
            "hotReadWindow": pick((0, 100_000, 1 << 28)),
            "logBlockCacheBytes": pick((0, 300_000, 18 << 20)),
            "maxTransferCountOnMessageInDisk": pick((8, 256)),
            **LIGHT,
        }

    def message(self):
        rng = self.rng
        tag, body = rng.choice(("", "A", "B")), rng.randbytes(rng.choice(SIZES))
        if rng.random() < 0.1:
            return fanned("%LMQ%a", body=body, tag=tag)
        pairs = {
            "price": str(rng.randrange(10)),
            **({"TAGS": tag} if tag else {}),
            **({"é": "ü"} if body == b"" else {}),
        }
        topic, queue_id = rng.choice((("T", 0), ("T", 1), ("T", 2), (LONG, 0)))
        host = bytes(rng.choice((8, 8, 8, 20)))
        return message(topic, queue_id, body, tag, properties=properties.encode(pairs), born_host=host)

    async def add(self, bench, count):
        messages = [self.message() for _ in range(count)]
        for each, result in zip(messages, await bench.add(*messages), strict=True):
            record = self.record(result.log_offset, result.size)
            self.stored[Queue(each.topic, each.queue_id)].append(record)
            for name in each.queue_targets.light if each.queue_targets else ():
                self.stored[Queue(name, 0)].append(record)

    def record(self, log_offset, size):
        with open(self.rig.log(log_offset // self.log_bytes * self.log_bytes), "rb") as file:
            file.seek(log_offset % self.log_bytes)
            return file.read(size)

    def damage(self):
        """Change one byte of a body."""
        record = next(iter_records(self.rng.choice([each for each in self.stored["T", 1] if len(each) > 500])))
        self.damaged.add(record.log_offset)
        start = record.log_offset // self.log_bytes * self.log_bytes
        self.rig.patch(self.rig.log(start), record.log_offset - start + 300, bytes([record.body[210] ^ 1]))

    async def truncate(self, bench):
        (record,) = iter_records(self.rng.choice(self.stored["T", 0][5:]))
        await bench.store.truncate(record.log_offset)
        for queue, records in self.stored.items():
            left = [each for each in records if int.from_bytes(each[28:36], "big") < record.log_offset]
            self.stored[queue] = left

    async def read(self, bench):
        """Read every queue with each filter, several at a time, one get each in turn."""
        self.rig.faults.cached = self.rng.random() < 0.7
        places = {(queue, number): 0 for queue in self.stored for number in range(len(FILTERS))}
        found = defaultdict(list)
        while places:
            for (queue, number), queue_offset in list(places.items()):
                if queue_offset >= bench.store.bounds(queue).max_offset:
                    del places[queue, number]
                    continue
                limit = GetLimit(self.rng.choice((1, 8, 32, 300)), self.rng.choice((1 << 27, 20_000)))
                result = bench.store.get(queue, queue_offset, limit, FILTERS[number][0])
                result = await result if isawaitable(result) else result
                records = [record for buffer in result.buffers for record in iter_records(buffer)]
                assert (result.count, result.size) == (len(records), sum(map(len, result.buffers)))
                assert (result.status is GetStatus.FOUND) == bool(records)
                assert result.next_offset > queue_offset
                found[queue, number] += [record.log_offset for record in records]
                assert all(bytes(record.raw) in self.stored[queue] for record in records)
                places[queue, number] = result.next_offset
        for queue, stored in self.stored.items():
            sound = [
                record for each in stored for record in iter_records(each) if record.log_offset not in self.damaged
            ]
            for number, (_, matches) in enumerate(FILTERS):
                assert found[queue, number] == [record.log_offset for record in sound if matches(record)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_reads_return_what_was_stored(rig, seed):
    reads = Reads(rig, seed)

    async def case(bench):
        await reads.add(bench, 150)
        await reads.read(bench)
        await reads.truncate(bench)
        await reads.add(bench, 60)
        await reads.read(bench)

    async def after(bench):
        await reads.read(bench)

    rig.run(case, **reads.settings)
    rig.run(after, **reads.settings)
    reads.damage()
    rig.run(after, **reads.settings | {"hotReadWindow": 0})
