"""The history that a console keeps: days of samples, steps of the clock, restarts, bounds, damaged and full files."""

from __future__ import annotations

import asyncio
import math
import random
import sqlite3
from array import array

import pytest
from manual_clock import ManualClock
from sampled_history import BEGIN_S, STEP_MS, Sampled

from gantrymq_console.history.file import APPLICATION, VERSION
from gantrymq_console.history.keeping import FILE_NAME, FLUSH_S
from gantrymq_console.history.packing import pack_row, pack_sample, unpack_row, unpack_sample
from gantrymq_console.history.periods import COARSE, FINE, KEY_PERIODS
from gantrymq_console.history.reading import DAY_MS, HOUR_MS, KINDS, HistoryUnavailable, Mark, Window

BEGIN_MS = int(BEGIN_S * 1000)
MIN_MS = 60_000


@pytest.mark.parametrize("count", [2, 3, 59, 60])
def test_a_row_is_read_as_it_was_written(count):
    values = random.Random(count)
    counts = array("f", [values.randrange(60_000) for _ in range(count - 1)] + [math.nan])
    walk = array("f", [1_000_000 + 300 * number - number * number for number in range(count)])
    large = array("f", [float(2**30 * values.randrange(100)) for _ in range(count)])
    rates = array("f", [values.random() * 1000 for _ in range(count)])
    lag, late, out, retries, dead = unpack_row("group", pack_row("group", [counts, 12.5, rates, None, 3.0]), count)
    assert (late, retries, dead) == (12.5, None, 3.0)
    assert list(lag)[:-1] == list(counts)[:-1] and math.isnan(lag[-1])
    assert all(other * (1 - 1 / 2048) <= one <= other for one, other in zip(out, rates, strict=True))
    assert unpack_row("group", pack_row("group", [walk, 0.0, 1.0, large, rates]), count) == [walk, 0, 1, large, rates]
    nothing = array("f", [math.nan] * count)
    unknown = unpack_row("topic", pack_row("topic", [nothing, array("f", range(count))]), count)
    assert all(map(math.isnan, unknown[0])) and list(unknown[1]) == list(range(count))
    constant = pack_row("topic", [0.0, 0.0])
    assert len(constant) == 2 + 8 and unpack_row("topic", constant, count) == [0.0, 0.0]


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_a_damaged_row_or_sample_is_told(cut):
    row = pack_row("topic", [array("f", range(60)), 1.0])
    with pytest.raises(ValueError, match="damaged"):
        unpack_row("topic", row[:cut], 60)
    with pytest.raises(ValueError, match="damaged"):
        unpack_row("topic", row[:cut] + b"\xff" * 20, 60)
    sample = pack_sample([("topic", 0, array("I", [1, 2]), array("f", [1, 2]))])
    with pytest.raises(ValueError, match="damaged"):
        list(unpack_sample(sample[:cut]))


def run(work):
    return asyncio.run(work)


def test_a_day_of_samples_then_points_of_five_minutes():
    """Every sample of the last day can be read, and what is older is one point for five minutes."""

    async def days():
        kept = Sampled()
        await kept.open()
        for number in range(2 * DAY_MS // STEP_MS):
            await kept.sample(billing=number % 30, idle=5)
            if number % 60 == 59:
                await kept.history.flush()
        now_ms = kept.now_ms
        day = await kept.lags("billing", now_ms - DAY_MS, now_ms)
        idle = await kept.lags("idle", now_ms - DAY_MS, now_ms)
        before = await kept.lags("billing", BEGIN_MS, now_ms - DAY_MS - 3 * HOUR_MS, 300_000)
        mixed = await kept.history.curves("group", "idle", Window(BEGIN_MS, now_ms, 120_000))
        stored = await kept.history._reading(lambda file: file.oldest_ms(FINE), None)
        await kept.history.close()
        return day, idle, before, mixed.curves[0].values, now_ms - stored

    day, idle, before, mixed, age_ms = run(days())
    assert day == tuple(number % 30 for number in range(DAY_MS // STEP_MS))
    assert set(idle) == {5} and len(idle) == DAY_MS // STEP_MS
    assert set(before) == {29} and len(before) > 250, "the largest lag of each five minutes"
    assert set(mixed) == {5} and len(mixed) == 2 * DAY_MS // 120_000
    assert DAY_MS <= age_ms <= DAY_MS + (KEY_PERIODS + 2) * FINE.slots * STEP_MS


@pytest.mark.slow
def test_thirty_days_are_kept_and_not_more():
    async def days():
        kept = Sampled()
        await kept.open()
        for number in range(35 * DAY_MS // MIN_MS):
            kept.columns["topic"] = [{"T": number % 5}, {"T": 0.0}]
            await kept.sample(billing=number)
            kept.clock.advance(50)
            if number % 10 == 9:
                await kept.history.flush()
        now_ms = kept.now_ms
        window = kept.history.window(30 * DAY_MS, now_ms)
        rates = await kept.history.curve_of_each("topic", ["T", "unknown"], "in", window)
        whole = await kept.lags("billing", now_ms - 30 * DAY_MS, now_ms, 300_000)
        since = await kept.history.known_since()
        await kept.history.close()
        return rates, whole, now_ms - since, window

    rates, whole, age_ms, window = run(days())
    assert window.step_ms == 3_600_000 and rates["unknown"].known == []
    assert set(rates["T"].values[:-2]) == {2.0}, "averages of 0, 1, 2, 3, 4"
    assert None not in whole[:-1] and list(whole[:-1]) == sorted(whole[:-1])
    assert whole[0] % 5 == 4, "the largest of five minutes"
    assert 30 * DAY_MS <= age_ms < 33 * DAY_MS


def test_a_process_that_is_killed_loses_less_than_a_minute(tmp_path):
    """The process takes samples as ever, and another one opens the file as it is."""

    async def killed(samples):
        kept = Sampled(tmp_path / str(samples))
        await kept.open()
        for number in range(samples):
            kept.columns["topic"] = [{"T": float(number)}, {}]
            await kept.sample(billing=number)
            kept.history._flush_later()
            await asyncio.sleep(0)
            await asyncio.wait([kept.history._flushing])
        again = kept.opened_again()
        await again.open()
        found = await again.lags("billing", BEGIN_MS, kept.now_ms)
        await again.sample(billing=1000)
        more = await again.lags("billing", BEGIN_MS, again.now_ms)
        await again.history.close()
        return found, more

    for samples in (2, 59, 60, 61, 100, 725):
        found, more = run(killed(samples))
        lost = next((place for place, value in enumerate(reversed(found)) if value is not None), len(found))
        assert lost * STEP_MS < MIN_MS and FLUSH_S < 60
        assert found[: len(found) - lost] == tuple(range(samples - lost))
        assert more == (*found, 1000)


def test_a_stop_loses_nothing_and_a_pause_is_a_gap(tmp_path):
    async def stopped():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(40):
            await kept.sample(billing=number, deleted=7)
        await kept.history.close()
        kept.clock.advance(1800)
        again = kept.opened_again()
        await again.open()
        for number in range(40):
            await again.sample(billing=number)
        lags = await again.lags("billing", BEGIN_MS, again.now_ms)
        deleted = await again.lags("deleted", BEGIN_MS, again.now_ms)
        coarse = await again.lags("billing", BEGIN_MS, again.now_ms, 300_000)
        await again.history.close()
        return lags, deleted, coarse

    lags, deleted, coarse = run(stopped())
    assert lags == (*range(40), *[None] * 180, *range(40))
    assert deleted == (*[7] * 40, *[None] * 220), "it is not known after the restart, not what it was"
    assert coarse == (29, 39, *[None] * 5, 19, 39)


@pytest.mark.parametrize("ahead_s", [35, 3600, 90 * 86400])
def test_a_step_of_the_clock_ahead_is_a_gap(tmp_path, ahead_s):
    async def steps():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(100):
            await kept.sample(billing=number, idle=3, flush=True)
        kept.clock.stepped_s += ahead_s
        jumped_ms = kept.now_ms
        for number in range(100):
            await kept.sample(billing=number, idle=3, flush=True)
        first = await kept.lags("billing", BEGIN_MS, BEGIN_MS + 100 * STEP_MS)
        begin_ms = jumped_ms // STEP_MS * STEP_MS
        second = await kept.lags("billing", begin_ms, begin_ms + 100 * STEP_MS)
        between = await kept.lags("idle", BEGIN_MS + 100 * STEP_MS, begin_ms)
        await kept.history.close()
        return first, second, between

    first, second, between = run(steps())
    assert first == tuple(range(100)) and set(between) == {None}
    known = [each for each in second if each is not None]
    assert len(known) >= 99 and known == sorted(known)


@pytest.mark.parametrize("back_s", [15, 500, 5000, 90 * 86400])
def test_a_step_of_the_clock_back_loses_nothing_that_is_stored(tmp_path, back_s):
    """A time that comes twice has its later sample; no other sample changes, and nothing is there twice."""

    async def steps():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(400):
            await kept.sample(billing=number, idle=3, flush=number % 7 == 0)
        kept.clock.stepped_s -= back_s
        back_ms = (kept.now_ms + STEP_MS // 2) // STEP_MS * STEP_MS
        for number in range(200):
            await kept.sample(billing=1000 + number, idle=4, flush=number % 7 == 0)
        found = []
        for each in (kept, kept.opened_again()):
            if each is not kept:
                await kept.history.close()
                await each.open()
            found.append(
                (
                    await each.lags("billing", BEGIN_MS, BEGIN_MS + 400 * STEP_MS),
                    await each.lags("billing", back_ms, back_ms + 200 * STEP_MS),
                    await each.lags("idle", BEGIN_MS, BEGIN_MS + 400 * STEP_MS),
                )
            )
        await each.history.close()
        return back_ms, *found

    back_ms, found, again = run(steps())
    assert found == again
    before, after, idle = found
    assert after[1:] == tuple(range(1001, 1200)) and after[0] in (1000, 399), "the newest slot keeps its sample"
    for place, value in enumerate(before):
        at_ms = BEGIN_MS + place * STEP_MS
        again = back_ms <= at_ms < back_ms + 200 * STEP_MS
        if place < 399:
            assert value == (1000 + (at_ms - back_ms) // STEP_MS if again else place)
            assert idle[place] == (4 if again else 3)


def test_what_was_gone_after_a_step_of_the_clock_back_has_no_values_of_before(tmp_path):
    async def steps():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(130):
            await kept.sample(billing=number, shipping=1)
        await kept.history.close()
        kept.clock.stepped_s -= 1300
        again = kept.opened_again()
        await again.open()
        for _ in range(130):
            await again.sample(shipping=2)
        await again.history.close()
        third = kept.opened_again()
        await third.open()
        found = [await third.lags(name, BEGIN_MS, third.now_ms) for name in ("billing", "shipping")]
        await third.history.close()
        return found

    billing, shipping = run(steps())
    assert set(billing) == {None} and set(shipping) == {2}


def test_the_file_is_bounded_and_the_oldest_goes_first(tmp_path):
    most_bytes = 1024 * 1024

    async def fill():
        kept, values = Sampled(tmp_path, most_bytes=most_bytes), random.Random(1)
        await kept.open()
        for number in range(3000):
            await kept.sample(**{f"group-{each}": values.randrange(60_000) for each in range(300)}, billing=number)
            if number % 30 == 0:
                await kept.history.flush()
        await kept.history.flush()
        lags = await kept.lags("billing", BEGIN_MS, kept.now_ms)
        since, problem = await kept.history.known_since(), kept.history.problem
        await kept.history.close()
        return lags, since, problem

    lags, since, problem = run(fill())
    assert (tmp_path / FILE_NAME).stat().st_size <= most_bytes
    exact = [place for place, value in enumerate(lags) if value == place]
    assert 300 < len(exact) < 2900 and lags[-300:] == tuple(range(len(lags) - 300, len(lags))), "the newest are there"
    assert lags[40] == 59, "of older times there are points of five minutes"
    assert since == BEGIN_MS and "1048576 bytes" in problem and "--history-bytes" in problem


def garbage(path):
    path.write_bytes(random.Random(2).randbytes(50_000))


def damaged_within(path):
    data = bytearray(path.read_bytes())
    data[4096:] = random.Random(3).randbytes(len(data) - 4096)
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [garbage, damaged_within])
def test_a_damaged_file_is_moved_aside(tmp_path, damage, caplog):
    async def reopen():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(100):
            await kept.sample(billing=number)
        await kept.history.close()
        damage(tmp_path / FILE_NAME)
        again = kept.opened_again()
        await again.open()
        for number in range(100):
            await again.sample(billing=number, flush=True)
        lags = await again.lags("billing", kept.now_ms - 100 * STEP_MS, kept.now_ms)
        problem = again.history.problem
        await again.history.close()
        third = kept.opened_again()
        await third.open()
        assert third.history.problem == ""
        assert await third.lags("billing", kept.now_ms - 100 * STEP_MS, kept.now_ms) == lags
        await third.history.close()
        return lags, problem

    lags, problem = run(reopen())
    assert lags == tuple(range(100))
    assert "damaged" in problem and f"{FILE_NAME}.damaged" in problem
    assert caplog.text.count(f"{FILE_NAME}.damaged") == 1
    assert (tmp_path / f"{FILE_NAME}.damaged").exists()


DAMAGES = (
    *(("UPDATE subjects SET %s WHERE id = 1", each) for each in ("kind = 99", "name = x'ff'", f"id = {2**62}")),
    *(("UPDATE samples SET %s", each) for each in ("data = 1.5", "number = 'x'")),
    ("UPDATE samples SET %s WHERE slot = (SELECT max(slot) FROM samples)", f"slot = {2**61}"),
    *(("UPDATE series SET %s", each) for each in ("data = 1.5", "data = NULL", "data = x'02'")),
    *(
        ("UPDATE periods SET %s", each)
        for each in ("begin = 'x'", "bits_group = 0", "bits_group = x'ff'", "chain = 'x'")
    ),
    *(("UPDATE periods SET %s", each) for each in ("bits_group = -1", f"bits_group = {2**62}")),
    ("UPDATE periods SET %s WHERE number = (SELECT max(number) FROM periods)", "number = 'x'"),
    *(("UPDATE marks SET %s", each) for each in ("fields = '{'", "fields = '[]'", "fields = 7", "word = x'ff'")),
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[0].split()[1] + " " + damage[1])
def test_values_that_no_console_writes_take_nothing_down(tmp_path, damage):
    """SQLite does not see that other bytes were read: what was there is unknown, and the rest works."""

    async def read():
        kept = Sampled(tmp_path)
        await kept.open()
        kept.history._recent.note([Mark(kept.now_ms, "group_new", "group", "billing", {"key": "x"})])
        for number in range(130):
            await kept.sample(billing=number)
        await kept.history.close()
        with sqlite3.connect(tmp_path / FILE_NAME) as db:
            db.execute("PRAGMA ignore_check_constraints = ON")
            db.execute(damage[0] % damage[1])
        db.close()
        again = kept.opened_again()
        await again.open()
        window = Window(BEGIN_MS, again.now_ms, STEP_MS)
        for kind in KINDS:
            await again.history.curves(kind, "billing", window)
            await again.history.moved(kind, KINDS[kind][0], window)
        await again.history.marks(window)
        await again.history.known_since()
        for number in range(70):
            await again.sample(billing=number, flush=True)
        lags = await again.lags("billing", again.now_ms - 70 * STEP_MS, again.now_ms)
        await again.history.close()
        return lags

    assert run(read()) == tuple(range(70))


def test_a_file_that_is_damaged_while_it_is_used_is_replaced(tmp_path, caplog):
    async def damaged():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(130):
            await kept.sample(billing=number, flush=True)
        damaged_within(tmp_path / FILE_NAME)
        kept.history._file._db.execute("PRAGMA shrink_memory")
        for number in range(130, 200):
            await kept.sample(billing=number, flush=True)
        lags = await kept.lags("billing", BEGIN_MS, kept.now_ms)
        await kept.history.close()
        again = kept.opened_again()
        await again.open()
        assert await again.lags("billing", BEGIN_MS, kept.now_ms) == lags
        await again.history.close()
        return lags

    lags = run(damaged())
    assert lags[-80:] == tuple(range(120, 200)), "what was in memory is kept"
    assert caplog.text.count("was damaged") == 1


@pytest.mark.parametrize(
    ("application", "version", "word"), [(1, 1, "another program"), (APPLICATION, VERSION + 1, "format")]
)
def test_a_foreign_or_newer_file_is_not_touched(tmp_path, caplog, application, version, word):
    path = tmp_path / FILE_NAME
    with sqlite3.connect(path) as db:
        db.executescript(f"PRAGMA application_id = {application}; PRAGMA user_version = {version}; CREATE TABLE t (a);")
    db.close()
    before = path.read_bytes()

    async def refused():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(70):
            await kept.sample(billing=number, flush=True)
        lags = await kept.lags("billing", BEGIN_MS, kept.now_ms)
        await kept.history.close()
        return lags, kept.history.problem

    lags, problem = run(refused())
    assert lags == tuple(range(70)) and word in problem and "in memory" in problem
    assert path.read_bytes() == before and caplog.text.count(word) == 1


def test_a_full_disk_is_told_once_and_sampling_goes_on(tmp_path, caplog):
    async def full():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(30):
            await kept.sample(billing=number, flush=True)
        db = kept.history._file._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(30, 200):
            values = {f"group-{each}": number for each in range(200)}
            await kept.sample(billing=number, **values, flush=True)
        problem = kept.history.problem
        during = await kept.lags("billing", BEGIN_MS, kept.now_ms)
        db.execute("PRAGMA max_page_count = 1000000")
        await kept.sample(billing=200, flush=True)
        after = kept.history.problem
        await kept.history.close()
        again = kept.opened_again()
        await again.open()
        found = await again.lags("billing", BEGIN_MS, kept.now_ms)
        await again.history.close()
        return problem, during, after, found

    problem, during, after, found = run(full())
    assert "full" in problem and after == ""
    assert during == tuple(range(200)) and found == tuple(range(201)), "nothing is lost within an hour"
    assert caplog.text.count("cannot be written") == 1 and caplog.text.count("is written to") == 1


def test_a_disk_that_stays_full_loses_the_oldest_and_memory_is_bounded(tmp_path):
    async def full():
        kept = Sampled(tmp_path)
        await kept.open()
        await kept.sample(billing=0, idle=7, flush=True)
        db = kept.history._file._db
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
        for number in range(1, 900):
            await kept.sample(
                billing=number, idle=7, **{f"g{each}": number for each in range(150)}, flush=number % 20 == 0
            )
        waiting = len(kept.history._recent.periods(FINE))
        db.execute("PRAGMA max_page_count = 1000000")
        await kept.sample(billing=900, idle=8, flush=True)
        await kept.history.close()
        again = kept.opened_again()
        await again.open()
        found = [await again.lags(name, BEGIN_MS, kept.now_ms) for name in ("billing", "idle")]
        await again.history.close()
        return waiting, *found

    waiting, lags, idle = run(full())
    assert waiting <= 7
    assert lags[540:] == tuple(range(540, 901)) and idle[540:] == (*[7] * 360, 8)
    assert set(lags[30:300]) == {59, *range(89, 300, 30)}, "points of five minutes are in place of dropped samples"


def test_a_folder_that_cannot_be_written_is_told_and_used_later(tmp_path):
    (tmp_path / "file").write_text("in the way")

    async def later():
        kept = Sampled(tmp_path / "file" / "state")
        await kept.open()
        for number in range(70):
            await kept.sample(billing=number, flush=True)
        problem = kept.history.problem
        (tmp_path / "file").unlink()
        for number in range(70, 140):
            await kept.sample(billing=number, flush=True)
        assert kept.history.problem == ""
        await kept.history.close()
        again = kept.opened_again()
        await again.open()
        found = await again.lags("billing", BEGIN_MS, kept.now_ms)
        await again.history.close()
        return problem, found

    problem, found = run(later())
    assert "cannot be written" in problem and found == tuple(range(140))


def test_first_and_last_values_of_all_that_moved(tmp_path):
    async def moved(stop):
        kept = Sampled(tmp_path / str(stop))
        await kept.open()
        for number in range(900):
            values = {"up": number, "down": 2000 - number // 100, "idle": 5, "sometimes": 1 if number % 50 else None}
            if number >= 700:
                values["late"] = 4 + (number > 800)
            await kept.sample(**values, flush=number % 30 == 0)
        if stop:
            await kept.history.close()
            kept = kept.opened_again()
            await kept.open()
        hour = await kept.history.moved("group", "lag", kept.history.window(HOUR_MS, kept.now_ms - 1))
        early = await kept.history.moved("group", "lag", Window(BEGIN_MS, BEGIN_MS + 100 * STEP_MS, STEP_MS))
        nothing = await kept.history.moved("group", "lag", Window(BEGIN_MS - HOUR_MS, BEGIN_MS, STEP_MS))
        window = kept.history.window(HOUR_MS, kept.now_ms - 1)
        began = await kept.history.moved("group", "lag", window, ["late", "idle", "unknown"])
        await kept.history.close()
        assert began == {**hour, "late": (0, 5), "idle": (0, 5)}
        return hour, early, nothing

    for stop in (False, True):
        hour, early, nothing = run(moved(stop))
        assert hour == {"up": (540, 899), "down": (1995, 1992), "late": (4, 5)}
        assert early == {"up": (0, 99)} and nothing == {}


@pytest.mark.parametrize("flushed", [False, True])
def test_a_history_of_some_minutes_begins_and_moves_as_its_samples_did(tmp_path, flushed):
    """Points of five minutes have neither the first values nor those of now."""

    async def young():
        kept = Sampled(tmp_path)
        await kept.open()
        for number in range(3, 100):
            await kept.sample(up=number, flush=flushed and number % 30 == 0)
        hour = await kept.history.moved("group", "lag", kept.history.window(HOUR_MS, kept.now_ms - 1))
        since = await kept.history.known_since()
        await kept.history.close()
        return hour, since, kept.now_ms

    hour, since, now_ms = run(young())
    assert hour == {"up": (3, 99)} and since == now_ms - 97 * STEP_MS


def test_events_are_kept_in_order_and_bounded(tmp_path):
    async def noted():
        kept = Sampled(tmp_path)
        await kept.open()
        marks = [Mark(BEGIN_MS + number, "group_new", "group", f"g{number}", {"n": number}) for number in range(1500)]
        for first in range(0, 1500, 100):
            kept.history._recent.note(marks[first : first + 100])
            if first < 1300:
                await kept.history.flush()
        window = Window(BEGIN_MS - 10, BEGIN_MS + 10_000, 10_000)
        some = await kept.history.marks(Window(BEGIN_MS + 5, BEGIN_MS + 8, 1))
        found = await kept.history.marks(window)
        await kept.history.close()
        again = kept.opened_again()
        await again.open()
        assert list(await again.history.marks(window)) == list(found)
        await again.history.close()
        return marks, some, found

    marks, some, found = run(noted())
    assert list(some) == marks[5:8] and list(found) == marks[-1000:]


def test_a_read_that_fails_is_said(tmp_path):
    async def failed():
        kept = Sampled(tmp_path)
        await kept.open()
        await kept.sample(billing=1, flush=True)
        kept.history._file._db.close()
        with pytest.raises(HistoryUnavailable, match=r"cannot be read from .*history\.db"):
            await kept.lags("billing", BEGIN_MS, kept.now_ms)

    run(failed())


def test_subjects_that_are_gone_are_forgotten(tmp_path):
    async def gone():
        kept = Sampled(tmp_path, days=1)
        await kept.open()
        for number in range(8 * DAY_MS // 300_000):
            values = {"billing": number, "again": number} if number % 900 == 0 else {"billing": number}
            if number < 10:
                values["once"] = 3
            await kept.sample(**values, flush=number % 12 == 0)
            kept.clock.advance(290)
        names = [name for _, _, name in kept.history._file.subjects()]
        assert "once" not in kept.history._recent.ids["group"]
        await kept.sample(once=4, flush=True)
        found = await kept.lags("once", kept.now_ms - 10 * STEP_MS, kept.now_ms)
        await kept.history.close()
        return names, found

    names, found = run(gone())
    assert "billing" in names and "once" not in names and found[-1] == 4


def test_the_loop_samples_on_multiples_of_ten_seconds():
    clock = ManualClock(BEGIN_S + 3.2)
    kept = Sampled(clock=clock)
    times = []

    async def sample():
        times.append(clock.now_ms() - BEGIN_MS)
        clock.advance(0.4)
        if len(times) == 3:
            clock.stepped_s -= 4
        if len(times) == 5:
            kept.history._always = False
            kept.history._read_ms = -100_000

    async def loop():
        kept.history.sample = sample
        await kept.history._run()
        await kept.history.close()

    run(loop())
    assert times == [3200, 10_000, 20_000, 20_000, 30_000]


def test_all_kinds_have_series():
    assert all(len(words) <= 5 for words in KINDS.values()) and COARSE.slots <= 63 and FINE.slots <= 63
