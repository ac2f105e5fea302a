"""One stored bit flips, in every field of every kind of file in turn; then the broker starts.

Each case starts once as after a clean stop and once as after a crash (abort exists, checkpoint missing, so that the
whole log is read).

    repaired    everything exists, unchanged
    gone        that record is no longer delivered, which was reported; everything else is unchanged
    unseen      RocketMQ's format has no check for it: the record has a changed field, everything else is unchanged
    elsewhere   the record claims another place or kind: it is in its original place, in the claimed queue, or in none,
        which was reported; everything else is unchanged
    refused     the start is refused with a sentence that names the file, or succeeds with everything intact

docs/broker/durability.md, section 5, contains this table.
"""

from __future__ import annotations

from inspect import isawaitable

import pytest
from crash_rig.ledger import DIGITS, Ledger
from crash_rig.lives import Life
from crash_rig.oracle import Content, content_of
from crash_rig.runs import START_MS
from crash_rig.starts import NEW, ROOT, Start, Starts, copy_of
from crash_rig.workload import Day

from gantrymq.errors import GantryError
from gantrymq.formats.record import iter_records, read_record
from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq_storage_faults import flip_bit
from gantrymq_store_files.blank import MAGIC_BLANK
from gantrymq_store_files.index import HEADER_BYTES, SLOT_BYTES
from gantrymq_store_files.queue_entry import ENTRY_BYTES
from gantrymq_testing.simulated import simulate

QUEUE = Queue("CrashA", 1)
RECORD = {  # byte in the record, bit in the byte, outcome
    "total size": (3, 1, "gone"),
    "total size, high": (0, 6, "gone"),
    "magic": (5, 3, "gone"),
    "body crc": (10, 2, "gone"),
    "queue id": (15, 1, "elsewhere"),
    "flag": (18, 0, "unseen"),
    "queue offset": (27, 1, "elsewhere"),
    "queue offset, high": (21, 4, "elsewhere"),
    "log offset": (34, 5, "gone"),
    "sys flag: tags": (39, 1, "unseen"),
    "sys flag: born host is IPv6": (39, 4, "gone"),
    "sys flag: half message": (39, 2, "elsewhere"),
    "born time": (45, 0, "unseen"),
    "born host": (49, 0, "unseen"),
    "store time": (62, 0, "unseen"),
    "store host": (65, 0, "unseen"),
    "reconsume times": (75, 0, "unseen"),
    "prepared offset": (83, 0, "unseen"),
    "body length": (87, 0, "gone"),
    "body": (95, 0, "gone"),
}
TAIL = {  # counted from the end of the body
    "topic length": (0, 0, "gone"),
    "topic": (3, 0, "elsewhere"),
}
END = {  # counted back from the end of the record
    "properties": (2, 0, "unseen"),
    "properties, top bit": (2, 7, "gone"),
}


class Sample:
    """A cleanly stopped store and its content."""

    def __init__(self, start: Start) -> None:
        self.content: Content = {}
        self.start = start

        async def main(world: World) -> None:
            disk = start.disk(world.clock.now_ms)

            async def day(life: Life) -> None:
                await Day(life, Ledger(), "bits", operations=90, plain=True).run()
                self.content.update(await content_of(life.broker.store))

            assert await Life(world, disk, start).run(day)
            self.start = Start("bits", start.sizes, copy_of(disk))

        simulate(1, main, start_ms=START_MS)
        entries = sorted(self.content[QUEUE])
        self.offset = entries[len(entries) // 2]  # of the victim
        data = self.start.content[self.queue_file(QUEUE)]
        at = self.offset * ENTRY_BYTES
        self.place = int.from_bytes(data[at : at + 8])
        size = start.sizes["mappedFileSizeCommitLog"]
        self.log_file = ROOT / "commitlog" / f"{self.place - self.place % size:020d}"
        self.position = self.place % size
        self.record = read_record(self.start.content[self.log_file], self.position)
        assert bytes(self.record.body) == self.content[QUEUE][self.offset]

    def queue_file(self, queue: Queue):
        """The first file of a queue."""
        return ROOT / "consumequeue" / queue.topic / str(queue.queue_id) / f"{0:020d}"

    def after(self, path, position, bit, *, clean, keys=None):
        """Flip, start, read; return the content, the reported sentences, and why a start was refused.

        *keys* receives each message with the result of a query by its key.
        """
        content = {}

        async def main(world):
            disk = self.start.disk(world.clock.now_ms)
            flip_bit(disk, path, position, bit)
            if not clean:
                disk.open(ROOT / "abort", create=True).close()
                if path.name != "checkpoint":
                    disk.remove(ROOT / "checkpoint")
            life = Life(world, disk, self.start)

            async def look(life):
                content.update(await content_of(life.broker.store, set()))
                if keys is not None:
                    await life.world.clock.sleep(5)
                    for queue, messages in self.content.items():
                        for body in messages.values():
                            found = life.broker.store.query(queue.topic, body[:DIGITS].decode(), 0, 1 << 50, 8)
                            found = await found if isawaitable(found) else found
                            keys.append((body, [bytes(r.body) for raw in found.records for r in iter_records(raw)]))

            try:
                await life.run(look)
            except GantryError as error:
                return str(error), life.said
            return None, life.said

        refusal, said = simulate(1, main, start_ms=START_MS + 3_600_000)
        return content, said, refusal


@pytest.fixture(scope="module")
def sample(starts: Starts) -> Sample:
    return Sample(starts.get(NEW))


def without(content, queue, offset):
    """All but one message."""
    return {each: {at: body for at, body in m.items() if (each, at) != (queue, offset)} for each, m in content.items()}


def compare(sample, path, position, bit, outcome, *, clean):
    content, said, refusal = sample.after(path, position, bit, clean=clean)
    if outcome == "refused":
        if refusal is not None:
            assert path.name.removesuffix(".bak") in refusal or path.parent.name in refusal
        else:
            assert content == sample.content
        return
    assert refusal is None
    if outcome == "repaired":
        assert content == sample.content
    elif outcome == "gone":
        assert content == without(sample.content, QUEUE, sample.offset), said
        assert said, "nothing was told"
    elif outcome == "unseen":
        assert content == sample.content
    else:
        assert outcome == "elsewhere"
        others = without(sample.content, QUEUE, sample.offset)
        body = sample.content[QUEUE][sample.offset]
        for queue, messages in others.items():
            found = {at: each for at, each in content.get(queue, {}).items() if each != body}
            assert found == messages, f"{queue}: {said}"
        copies = sum(each == body for messages in content.values() for each in messages.values())
        assert copies <= 1
        assert copies or said, "gone, and nothing was told"


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("field", [*RECORD, *TAIL, *END])
def test_a_bit_of_a_record_costs_that_record_at_most(sample: Sample, field: str, clean: bool) -> None:
    if field in RECORD:
        position, bit, outcome = RECORD[field]
    elif field in TAIL:
        position, bit, outcome = TAIL[field]
        position += 88 + len(sample.record.body)
    else:
        position, bit, outcome = END[field]
        position = sample.record.total_size - position
    compare(sample, sample.log_file, sample.position + position, bit, outcome, clean=clean)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(("field", "at", "bit"), [("size", 3, 1), ("magic", 5, 2), ("unused", 40, 0)])
def test_a_bit_of_the_blank_that_closes_a_file_costs_nothing(
    sample: Sample, field: str, at: int, bit: int, clean: bool
) -> None:
    data = sample.start.content[sample.log_file]
    blank = data.rindex(MAGIC_BLANK.to_bytes(4)) - 4
    if field == "unused" and len(data) - blank <= at:
        at = len(data) - blank - 1
    compare(sample, sample.log_file, blank + at, bit, "repaired", clean=clean)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(("field", "at"), [("log offset", 6), ("size", 10), ("tags code", 18)])
def test_a_bit_of_a_queue_entry_costs_that_message_at_most(sample: Sample, field: str, at: int, clean: bool) -> None:
    position = sample.offset * ENTRY_BYTES + at
    content, said, refusal = sample.after(sample.queue_file(QUEUE), position, 1, clean=clean)
    assert refusal is None
    if field == "tags code" or not clean:  # no check covers tags codes; filters by tag may pass the message over
        assert content == sample.content
    else:
        assert content in (sample.content, without(sample.content, QUEUE, sample.offset))
        assert content == sample.content or said


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("field", ["log time", "queue time", "index time", "master", "confirmed", "unused"])
@pytest.mark.parametrize("at", [2, 7])
def test_a_bit_of_the_checkpoint_costs_nothing(sample: Sample, field: str, at: int, clean: bool) -> None:
    number = ["log time", "queue time", "index time", "master", "confirmed", "unused"].index(field)
    compare(sample, ROOT / "checkpoint", 8 * number + at, 4, "repaired", clean=clean)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize(
    "name",
    ["config/topics.json", "config/consumerOffset.json", "config/subscriptionGroup.json", "checkpoint.json", "lock"],
)
def test_a_bit_of_a_small_file_never_costs_a_message(sample: Sample, name: str, clean: bool) -> None:
    path = ROOT / name
    data = sample.start.content[path]
    for position in range(0, len(data), max(1, len(data) // 12)):
        compare(sample, path, position, position % 8, "refused", clean=clean)


INDEX = {  # where it is, byte and bit
    "begin time": ("header", 6, 0),
    "end time": ("header", 14, 0),
    "begin offset": ("header", 22, 1),
    "end offset": ("header", 30, 1),
    "slots in use": ("header", 35, 0),
    "entries": ("header", 39, 2),
    "slot": ("slot", 3, 1),
    "hash": ("entry", 3, 2),
    "log offset": ("entry", 10, 1),
    "time": ("entry", 14, 0),
    "entry before": ("entry", 19, 0),
}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("field", INDEX)
@pytest.mark.parametrize("number", [0, -1], ids=["oldest", "newest"])
def test_a_bit_of_the_index_may_hide_a_message_from_queries_and_never_shows_a_wrong_one(
    sample: Sample, field: str, number: int, clean: bool
) -> None:
    part, at, bit = INDEX[field]
    path = sorted(path for path in sample.start.content if path.parent.name == "index")[number]
    data, slots = sample.start.content[path], sample.start.sizes["maxHashSlotNum"]
    used = next(slot for slot in range(slots) if any(data[HEADER_BYTES + SLOT_BYTES * slot :][:SLOT_BYTES]))
    at += {
        "header": 0,
        "slot": HEADER_BYTES + SLOT_BYTES * used,
        "entry": HEADER_BYTES + SLOT_BYTES * slots + 20 * 3,  # entries count from 1
    }[part]
    keys = []
    content, _, refusal = sample.after(path, at, bit, clean=clean, keys=keys)
    assert refusal is None
    assert content == sample.content
    assert all(found in ([body], []) for body, found in keys)
    assert len(keys) > 80
    hidden = sum(not found for _, found in keys)
    assert hidden == 0 or clean
    assert hidden < len(keys)  # only fields of this file
