"""Wheel and log on a real disk: lists of slots, full files, and starts on damaged files."""

import errno
import threading
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_storage_faults")

from gantrymq.errors import StoreLayoutError
from gantrymq.world.real import real_world
from gantrymq_schedule.timer.recovery import recover
from gantrymq_schedule.timer.wheel_files import NewEntry, WheelFiles
from gantrymq_storage_faults import Failure, FaultPlan, FaultyFiles, Machine
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.timer_checkpoint import TimerCheckpoint
from gantrymq_store_files.timer_log import DEFAULT, DELETE, ENTRY_BYTES, TimerEntry, encode_entry
from gantrymq_store_files.timer_wheel import SLOTS, WHEEL_BYTES
from gantrymq_testing.simulated import SimulatedFiles

NOW = 1_700_000_000
FILE_BYTES = 3 * ENTRY_BYTES + 16
FILES = real_world().files
LOG_END = 10**6


def opened(root, flushed=0, read_tick=NOW, log_end=LOG_END):
    wheel = WheelFiles(FILES, root, FILE_BYTES, 1000)
    return wheel, recover(wheel, FILES, check(flushed), read_tick, log_end)


def check(flushed, in_slots=-1):
    return TimerCheckpoint(flushed_position=flushed, in_slots=in_slots)


def new(tick, offset, magic=DEFAULT):
    return NewEntry(NOW + tick, magic, offset, 100, 7)


def offsets(wheel, tick):
    return [entry.log_offset for entry in wheel.entries(wheel.chain(NOW + tick).positions)]


@pytest.fixture
def wheel(tmp_path):
    made, _ = opened(tmp_path)
    yield made
    made.close()


def fill(wheel, count=8):
    """Entries of two slots in turn, over several files."""
    for number in range(count):
        wheel.append([new(number % 2, number * 100)], NOW * 1000)


def test_nothing_is_made_before_the_first_message(wheel, tmp_path):
    assert wheel.slot(NOW) is None
    assert wheel.next_busy(NOW, NOW + 100) == NOW + 100
    assert list(tmp_path.iterdir()) == []


def test_lists_go_over_files_in_the_order_of_the_messages(wheel):
    fill(wheel)
    wheel.append([new(5, 900), new(0, 1000), new(0, 1100, DEFAULT | DELETE)], NOW * 1000)
    assert offsets(wheel, 0) == [0, 200, 400, 600, 1000]
    assert offsets(wheel, 1) == [100, 300, 500, 700]
    assert [entry.log_offset for entry in wheel.chain(NOW).markers] == [1100]
    assert wheel.slot(NOW).count == 4
    assert len(wheel.starts()) == 4
    assert [slot.tick - NOW for slot in wheel.busy(NOW - 10, NOW + 10)] == [0, 1, 5]
    assert wheel.next_busy(NOW + 2, NOW + 10) == NOW + 5


def test_a_slot_of_two_weeks_before_is_empty(wheel):
    wheel.append([new(0, 0)], NOW * 1000)
    assert wheel.slot(NOW + SLOTS) is None
    wheel.append([new(SLOTS, 100)], (NOW + SLOTS) * 1000)
    assert wheel.slot(NOW) is None
    assert offsets(wheel, SLOTS) == [100]


def test_an_append_that_failed_half_way_may_be_made_again(wheel, monkeypatch):
    fill(wheel, 2)

    write_slots = wheel.write_slots

    def full(slots):
        write_slots(slots[:1])
        raise OSError(errno.ENOSPC, "full")

    with monkeypatch.context() as patched:
        patched.setattr(wheel, "write_slots", full)
        with pytest.raises(OSError, match="full"):
            wheel.append([new(0, 200), new(1, 300)], NOW * 1000)
    assert (offsets(wheel, 0), wheel.slot(NOW).count, offsets(wheel, 1)) == ([0], 1, [100])
    wheel.append([new(0, 200), new(1, 300)], NOW * 1000)
    assert (offsets(wheel, 0), offsets(wheel, 1)) == ([0, 200], [100, 300])
    assert [wheel.slot(NOW + tick).count for tick in (0, 1)] == [2, 2]


@pytest.mark.parametrize("flushed", [0, 2 * ENTRY_BYTES, FILE_BYTES + ENTRY_BYTES])
def test_a_start_finds_everything_and_tells_what_is_behind_the_checkpoint(wheel, tmp_path, flushed):
    fill(wheel)
    again, found = opened(tmp_path, flushed)
    behind = [number * 100 for number in range(8) if number // 3 * FILE_BYTES + number % 3 * ENTRY_BYTES >= flushed]
    assert sorted(found.in_wheel) == behind
    assert (found.waiting, found.last_tick, found.cut) == (8, NOW + 1, 0)
    assert again.end == wheel.end
    assert (offsets(again, 0), offsets(again, 1)) == ([0, 200, 400, 600], [100, 300, 500, 700])


def test_a_wheel_that_is_gone_is_made_from_the_log(wheel, tmp_path):
    wheel.append([new(5, 50)], NOW * 1000)
    fill(wheel)
    wheel.wheel_path.unlink()
    again, found = opened(tmp_path, wheel.end)
    assert (found.waiting, found.last_tick, again.slot(NOW + 5).count, offsets(again, 5)) == (9, NOW + 5, 1, [50])
    assert (offsets(again, 0), offsets(again, 1)) == ([0, 200, 400, 600], [100, 300, 500, 700])


@pytest.mark.parametrize("flushed", [0, 3 * FILE_BYTES])
def test_entries_whose_messages_are_lost_go_and_their_slots_are_set_back(wheel, tmp_path, flushed):
    fill(wheel)
    again, found = opened(tmp_path, min(flushed, 2 * FILE_BYTES), log_end=700)
    assert (found.cut, found.waiting) == (1, 7)
    assert (offsets(again, 0), offsets(again, 1)) == ([0, 200, 400, 600], [100, 300, 500])
    again.append([new(1, 700)], NOW * 1000)
    assert offsets(again, 1) == [100, 300, 500, 700]


def test_files_behind_the_last_message_of_the_commit_log_go(wheel, tmp_path):
    fill(wheel)
    again, found = opened(tmp_path, 0, log_end=150)
    assert (again.starts(), again.end, found.waiting) == ([0], 2 * ENTRY_BYTES, 2)
    assert (offsets(again, 0), offsets(again, 1)) == ([0], [100])


def test_bytes_after_a_hole_are_not_read_as_entries_later(wheel, tmp_path):
    fill(wheel, 3)
    path = next(wheel.folder.iterdir())
    data = bytearray(path.read_bytes())
    data[ENTRY_BYTES : 2 * ENTRY_BYTES] = bytes(ENTRY_BYTES)
    path.write_bytes(data)
    again, found = opened(tmp_path)
    assert (again.end, found.waiting) == (ENTRY_BYTES, 1)
    again.append([new(3, 500)], NOW * 1000)
    once_more, found = opened(tmp_path)
    assert (once_more.end, found.waiting) == (2 * ENTRY_BYTES, 2)
    assert (offsets(once_more, 0), offsets(once_more, 1), offsets(once_more, 3)) == ([0], [], [500])


def test_a_list_that_names_another_slot_s_entry_ends_there(wheel):
    fill(wheel, 2)
    wheel.write_log(0, encode_entry(TimerEntry(-1, 1, NOW * 1000, 9000, 0, 100, 7)))
    chain = wheel.chain(NOW)
    assert (list(chain.positions), chain.broken_at) == ([], 0)


def test_files_whose_messages_have_left_the_commit_log_are_removed_but_the_newest(wheel):
    fill(wheel)
    assert wheel.clean(200) == 0
    assert wheel.clean(201) == 1
    assert wheel.clean(10**9) == 1
    assert wheel.starts() == [2 * FILE_BYTES]
    assert offsets(wheel, 0) == [600]
    wheel.append([new(0, 800)], NOW * 1000)  # the newest is full
    assert (wheel.clean(10**9), wheel.starts()) == (0, [2 * FILE_BYTES])


def test_a_sync_with_nothing_to_do_goes_to_no_disk(tmp_path):
    machine = FaultyFiles(
        FILES, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, where="timer", at=5),))
    )  # after two that make files
    made = WheelFiles(machine, tmp_path, FILE_BYTES, 1000)
    made.append([new(0, 100)], NOW * 1000)
    for _ in range(3):
        made.sync()
    made.close()


@pytest.mark.parametrize(
    ("name", "size"), [("timerwheel", 100), ("timerlog/" + "0" * 20, 65536), ("timerlog/" + "7" * 20, FILE_BYTES)]
)
def test_files_of_another_size_stop_the_start(tmp_path, name, size):
    (tmp_path / "timerlog").mkdir()
    (tmp_path / name).write_bytes(bytes(size))
    with pytest.raises(StoreLayoutError, match=f"{name}: {size} bytes"):
        opened(tmp_path)


def test_after_a_failed_sync_everything_is_written_again():
    """The disk kept none of the data of the failed sync, and the power fails after a successful one."""
    machine, root = Machine(SimulatedFiles(lambda: 0)), Path("/store")
    failing = (Failure(errno.EIO, {"datasync"}, where="/timer", at=5),)  # after those that make the four files
    wheel = WheelFiles(FaultyFiles(machine, FaultPlan(failures=failing, write_back=0.0)), root, FILE_BYTES, 1000)
    fill(wheel)
    with pytest.raises(OSError, match="Input/output"):
        wheel.sync()
    wheel.append([new(0, 900)], NOW * 1000)
    wheel.sync()
    machine.power_cut(FaultPlan(lose=1.0))
    files = FaultyFiles(machine, FaultPlan())
    again = WheelFiles(files, root, FILE_BYTES, 1000)
    assert recover(again, files, check(0), NOW, LOG_END).waiting == 9
    assert offsets(again, 0) == [0, 200, 400, 600, 900]


def test_a_wheel_that_a_process_left_without_length_gets_it_before_it_is_written(tmp_path):
    made, _ = opened(tmp_path)
    made.append([new(0, 100)], NOW * 1000)
    made.close()
    made.wheel_path.write_bytes(b"")
    (made.folder / file_name(0)).write_bytes(b"")
    again, found = opened(tmp_path)
    assert (found.waiting, again.slot(NOW)) == (0, None)
    again.append([new(3, 200)], NOW * 1000)
    again.close()
    assert again.wheel_path.stat().st_size == WHEEL_BYTES
    last, found = opened(tmp_path)
    assert (found.waiting, offsets(last, 3)) == (1, [200])
    last.close()


def test_a_length_whose_sync_failed_is_given_again(tmp_path):
    faulty = FaultyFiles(FILES, FaultPlan(failures=(Failure(errno.EIO, {"datasync"}, where="timerwheel", times=1),)))
    wheel = WheelFiles(faulty, tmp_path, FILE_BYTES, 1000)
    with pytest.raises(OSError, match="Input/output"):
        wheel.append([new(0, 100)], NOW * 1000)
    assert wheel.wheel_path.stat().st_size == 0
    wheel.append([new(0, 100)], NOW * 1000)
    assert offsets(wheel, 0) == [100]
    assert wheel.wheel_path.stat().st_size == WHEEL_BYTES
    wheel.close()


def beside(work):
    """Run *work* in another thread, for as long as it runs or is blocked."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(0.2)
    return thread


def test_what_comes_while_all_is_written_again_stays_in_its_list(wheel, monkeypatch):
    wheel.append([new(0, 0), new(0, 100)], NOW * 1000)
    write_slots, others = wheel.write_slots, []

    def slowly(slots):
        if not others:
            others.append(None)
            others[0] = beside(lambda: wheel.append([new(0, 200)], NOW * 1000))
        write_slots(slots)

    class Failing:
        def datasync(self):
            raise OSError(errno.EIO, "Input/output error")

    wheel._unsynced.add(Failing())
    monkeypatch.setattr(wheel, "write_slots", slowly)
    with pytest.raises(OSError, match="Input/output"):
        wheel.sync()
    others[0].join()
    assert offsets(wheel, 0) == [0, 100, 200]


def test_a_sync_beside_an_append_does_not_hide_what_is_written_after_it(wheel, monkeypatch):
    wheel.append([new(0, 0)], NOW * 1000)
    wheel.sync()
    (log,) = wheel._logs.values()
    events, others = [], []

    class Slow:
        def pwrite(self, data, place):
            others.append(beside(wheel.sync))
            log.pwrite(data, place)
            events.append("write")

        def datasync(self):
            log.datasync()
            events.append("sync")

        def __getattr__(self, name):
            return getattr(log, name)

    monkeypatch.setitem(wheel._logs, 0, Slow())
    wheel.append([new(0, 100)], NOW * 1000)
    others[0].join()
    wheel.sync()
    assert events[-1] == "sync"


@pytest.mark.parametrize(("was", "now"), [(1000, 100), (1000, 500), (500, 1000), (100, 1000), (100, 200)])
@pytest.mark.parametrize("gone", [False, True], ids=["", "wheel-gone"])
def test_messages_in_slots_of_another_precision_stop_the_start(tmp_path, was, now, gone):
    """Nothing is changed by it: with the earlier precision they are all there."""
    wheel = WheelFiles(FILES, tmp_path, FILE_BYTES, was)
    tick = NOW * 1000 // was
    due = [tick + 1, tick + 2, tick + 175_001]
    wheel.append([NewEntry(each, DEFAULT, number * 100, 100, 7) for number, each in enumerate(due)], NOW * 1000)
    wheel.close()
    if gone:
        wheel.wheel_path.unlink()
    finer = gone and now < was
    if finer:  # none of the reachable ones is lost, and the last one is not reachable
        due[2] = tick + SLOTS * now // was + 5
        wheel.append([NewEntry(due[2], DEFAULT, 300, 100, 7)], NOW * 1000)
        wheel.close()
        wheel.wheel_path.unlink()
    before = {path: path.read_bytes() for path in wheel.folder.iterdir()}
    again = WheelFiles(FILES, tmp_path, FILE_BYTES, now)
    with pytest.raises(StoreLayoutError, match=f"slot.* of .*, and timerPrecisionMs is {now} now; set it back") as stop:
        recover(again, FILES, check(0), NOW * 1000 // now, LOG_END)
    assert gone or f"back to {was}," in str(stop.value)
    again.close()
    assert before == {path: path.read_bytes() for path in wheel.folder.iterdir()}
    as_before = WheelFiles(FILES, tmp_path, FILE_BYTES, was)
    assert recover(as_before, FILES, check(0), tick, LOG_END).waiting == (4 if finer else 3)
    as_before.close()


@pytest.mark.parametrize(("was", "now"), [(1000, 100), (500, 1000)])
def test_the_precision_may_change_when_nothing_waits(tmp_path, was, now):
    wheel = WheelFiles(FILES, tmp_path, FILE_BYTES, was)
    wheel.append([NewEntry(NOW * 1000 // was, DEFAULT, 0, 100, 7)], NOW * 1000)
    wheel.close()
    again = WheelFiles(FILES, tmp_path, FILE_BYTES, now)
    found = recover(again, FILES, check(0), (NOW + 1) * 1000 // now, LOG_END)
    assert (found.waiting, again.end) == (0, wheel.end)
    again.append([NewEntry((NOW + 5) * 1000 // now, DEFAULT, 100, 100, 7)], NOW * 1000)
    again.close()
    last = WheelFiles(FILES, tmp_path, FILE_BYTES, now)
    assert recover(last, FILES, check(wheel.end), (NOW + 1) * 1000 // now, LOG_END).waiting == 1
    last.close()
