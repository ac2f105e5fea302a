"""Gets through a filter of properties: the same messages as through one that sees records, for less."""

import random

import pytest

from gantrymq.errors import FilterBudgetExceeded
from gantrymq.interfaces import GetLimit, GetStatus
from gantrymq.model import properties
from gantrymq.model.queue import Queue
from gantrymq_storage_mmap.reading import get, message_scan
from gantrymq_testing.store_contract_bench import bodies, message, records_of

T0 = Queue("T", 0)
BIG = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20000}


class OnRecords:
    """Accepts messages whose property ``a`` has *value*, by their records."""

    accepts_all = False
    needs_message = True

    def __init__(self, value):
        self.value, self.seen = value, 0

    def match_entry(self, tags_code, ext):
        return ext is None or ext.tags_code != 7

    def match_message(self, record):
        self.seen += 1
        return record.properties.get("a") == self.value


class OnProperties(OnRecords):
    """The same by properties alone."""

    def __init__(self, value, needles=()):
        super().__init__(value)
        self.needles = needles

    def match_properties(self, text):
        self.seen += 1
        return properties.decode(text).get("a") == self.value

    def match_units(self, runs):
        return None


class OnSlices(OnProperties):
    """The same by the properties of many messages; *slices* are the numbers of messages of each call."""

    match_properties = None

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.slices = []

    def match_slice(self, texts):
        self.slices.append(len(texts))
        self.seen += len(texts)
        return [index for index, text in enumerate(texts) if properties.decode(text).get("a") == self.value]


class ShortTurn(OnProperties):
    """The same, but its turn ends after a number of messages."""

    def __init__(self, left, *given, **more):
        super().__init__(*given, **more)
        self.left = left

    def match_properties(self, text):
        if not self.left:
            raise FilterBudgetExceeded("its turn is over")
        self.left -= 1
        return super().match_properties(text)


def with_a(value, body=b"body", **more):
    return message(body=body, properties=properties.encode({"a": value, "b": "x"} if value else {}), **more)


def odd_messages(seed):
    """Messages of every layout a record can have, in two queues and a topic with a long name."""
    rng = random.Random(seed)
    for number in range(rng.randrange(1, 200)):
        more = {}
        if rng.random() < 0.2:
            more["born_host"] = bytes(20)
        if rng.random() < 0.2:
            more["store_host"] = bytes(20)
        body = rng.choice([b"", b"a\x011\x02", b"%d" % number, b"y" * 6000, b"z" * 200_000])
        made = with_a(rng.choice(["1", "2", "12", ""]), body, **more)
        made.tags_code = rng.choice([0, 0, 0, 7])
        made.topic = rng.choice(["T", "T", "T", "Other", "L" * 120])
        yield made


@pytest.mark.parametrize("by", [OnProperties, OnSlices])
@pytest.mark.parametrize("needles", [(), (b"a\x011\x02",), (b"a\x019\x02", b"a\x011\x02")], ids=len)
@pytest.mark.parametrize("place", ["hot", "in memory", "on the disk", "now and then on the disk"])
def test_it_takes_what_a_filter_of_records_takes(rig, needles, place, by):
    rig.faults.cached = place == "in memory"

    async def case(bench):
        for seed in range(6):
            await bench.add(*odd_messages(seed))
        if place != "hot":
            await bench.restart()
        for queue in (T0, Queue("Other", 0), Queue("L" * 120, 0)):
            wanted = await bench.read_all(queue, 0, GetLimit(), OnRecords("1"))
            rng = random.Random(1)
            offset, found = 0, []
            while offset < bench.store.bounds(queue).max_offset:
                if place.startswith("now"):
                    rig.faults.cached = rng.random() < 0.5
                got = await bench.get(queue, offset, GetLimit(), by("1", needles))
                assert offset < got.next_offset
                found += [bytes(record.raw) for record in records_of(got)]
                offset = got.next_offset
            assert found == [bytes(record.raw) for record in wanted]

    rig.run(case, mappedFileSizeCommitLog=4 << 20, mappedFileSizeConsumeQueue=20000)


def test_records_without_a_needle_are_never_shown_to_the_filter(rig):
    async def case(bench):
        await bench.add(*[with_a(value) for value in ["1", "2", "3", "2"]], with_a("2", b"a\x011\x02"))
        match = OnProperties("1", (b"a\x011\x02",))
        got = await bench.get(T0, 0, match=match)
        assert (got.count, got.next_offset, match.seen) == (1, 5, 1)  # the body of the last one has the text, too

    rig.run(case, **BIG)


def test_a_slice_is_as_long_as_the_matches_that_are_missing_need(rig):
    async def case(bench):
        await bench.add(*[with_a("1") for _ in range(100)], *[with_a("2") for _ in range(700)])
        match = OnSlices("1")
        got = await bench.get(T0, 0, GetLimit(max_count=32), match)
        assert (got.count, got.next_offset, match.slices) == (32, 32, [32, 1])
        match = OnSlices("2")
        got = await bench.get(T0, 0, GetLimit(max_count=10), match)
        assert (got.count, got.next_offset) == (10, 110)
        assert match.slices[0] == 10 and sum(match.slices) < 250
        match = OnSlices("3")
        got = await bench.get(T0, 0, GetLimit(max_count=32), match)
        assert (got.count, got.next_offset, match.seen) == (0, 800, 800)
        assert len(match.slices) <= 3

    rig.run(case, **BIG)


def test_a_slice_is_limited_in_bytes(rig, monkeypatch):
    monkeypatch.setattr(message_scan, "SLICE_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[with_a("12"[number % 2], b"x" * 3000) for number in range(20)])
        match = OnSlices("1")
        got = await bench.get(T0, 0, GetLimit(), match)
        assert (got.count, got.next_offset, set(match.slices)) == (10, 20, {4})

    rig.run(case, **BIG)


def test_a_slice_whose_filter_is_out_of_time_ends_the_get_before_it(rig):
    class Tired(OnSlices):
        def match_slice(self, texts):
            if self.slices:
                raise FilterBudgetExceeded("its turn is over")
            return super().match_slice(texts)

    async def case(bench):
        await bench.add(*[with_a("1") for _ in range(3)], *[with_a("2") for _ in range(50)])
        got = await bench.get(T0, 0, GetLimit(max_count=8), Tired("1"))
        assert (got.status, got.count, got.next_offset) == (GetStatus.FOUND, 3, 8)
        tired = Tired("1")
        tired.slices.append(0)
        got = await bench.get(T0, 0, GetLimit(max_count=8), tired)
        assert (got.status, got.count, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 0, 0)

    rig.run(case, **BIG)


def test_a_full_answer_goes_on_behind_what_does_not_match(rig):
    async def case(bench):
        await bench.add(*[with_a(value) for value in ["1", "1", "2", "2", "1"]])
        got = await bench.get(T0, 0, GetLimit(max_count=2), OnProperties("1"))
        assert (got.count, got.next_offset, got.cold) == (2, 4, False)
        got = await bench.get(T0, 4, GetLimit(max_count=2), OnProperties("1"))
        assert (got.count, got.next_offset) == (1, 5)

    rig.run(case, **BIG)


@pytest.mark.parametrize("place", ["hot", "in memory"])
def test_a_filter_whose_turn_is_over_ends_the_get_before_the_entry(rig, place):
    rig.faults.cached = place == "in memory"

    async def case(bench):
        await bench.add(*[with_a(value, b"%d" % n) for n, value in enumerate("112122221")])
        if place != "hot":
            await bench.restart()
        for left in range(10):
            got = await bench.get(T0, 0, match=ShortTurn(left, "1"))
            expected = [n for n, value in enumerate("112122221"[:left]) if value == "1"]
            end = min(left, 9)
            assert (got.next_offset, bodies(records_of(got))) == (end, [b"%d" % n for n in expected])
            assert got.status is (GetStatus.FOUND if expected else GetStatus.NO_MATCHED_MESSAGE)

    rig.run(case, **BIG)


def test_a_damaged_record_that_matches_is_refused(rig):
    rig.faults.cached = True

    async def case(bench):
        results = await bench.add(*[with_a("1", b"body-%d" % number) for number in range(3)])
        await bench.restart()
        rig.patch(rig.log(), results[1].log_offset + 90, b"!")
        got = await bench.get(T0, 0, match=OnProperties("1", (b"a\x011\x02",)))
        assert (got.next_offset, bodies(records_of(got))) == (3, [b"body-0", b"body-2"])
        assert len([line for line in rig.said if "damaged" in line]) == 1

    rig.run(case, **BIG)


def test_a_thread_brings_in_what_is_on_the_disk(rig, monkeypatch):
    def brought(log, entries, passing):
        message_scan.load_records(log, entries, passing)
        rig.faults.cached = True

    monkeypatch.setattr(get, "load_records", brought)
    monkeypatch.setattr(OnRecords, "match_message", None)

    async def case(bench):
        sizes = [("1", 10), ("1", 1000), ("2", 300_000), ("1", 10), ("2", 1000), ("2", 300_000)]
        await bench.add(*[with_a(value, b"x" * size) for value, size in sizes])
        await bench.restart()
        rig.faults.cached = False
        before = rig.faults.calls["pread"]
        got = await bench.get(T0, 0, match=OnProperties("1"))
        assert (got.count, got.next_offset, got.cold) == (3, 6, True)
        assert rig.faults.calls["pread"] - before == 4

    rig.run(case, **BIG)


def test_large_records_are_looked_at_over_several_gets(rig, monkeypatch):
    monkeypatch.setattr(message_scan, "MOST_BYTES", 10_000)

    async def case(bench):
        await bench.add(*[with_a("2", b"x" * 5000) for _ in range(10)])
        got = await bench.get(T0, 0, match=OnProperties("1"))
        assert (got.status, got.next_offset) == (GetStatus.NO_MATCHED_MESSAGE, 2)
        assert await bench.read_all(T0, 0, match=OnProperties("1")) == []

    rig.run(case, **BIG)


@pytest.mark.parametrize("seed", range(4))
def test_the_values_of_a_property_include_that_of_each_message(rig, seed):
    async def case(bench):
        texts = [
            b"a\x01x\x02",
            b"b\x01y\x02a\x01x\x02",
            b"a\x01z\x02a\x01\x02",
            b"xa\x01q\x02",
            b"",
            b"b\x01\x02a\x01w",
        ]
        rng = random.Random(seed)
        given = [rng.choice(texts) for _ in range(60)]
        await bench.add(*[message(properties=text, body=rng.choice([b"", b"\x02a\x01v\x02"])) for text in given])
        queue = bench.store._queues.by_name[T0]
        runs = bench.store._reader._scan._values(queue.entries(0, 60), 0, "a", 0, 60)
        ends = [*(offset for offset, _ in runs[1:]), 60]
        for (begin, values), end in zip(runs, ends, strict=True):
            for text in given[begin:end]:
                value = properties.decode(text).get("a")
                assert value is None or value.encode() in values, (text, values)
        assert runs[0][0] == 0

    rig.run(case)
