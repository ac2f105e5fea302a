"""Power cuts under load on a real file system: no acknowledged message is lost.

The store is on ext4 or xfs on a loop device; a reflink copy of the device's file, taken in milliseconds under load, is
the disk at that instant, without data that was only in the page cache. The copy is mounted, which replays its journal,
and another broker starts on it: every message whose acknowledgement was read before the copy was started exists once,
at its queue offset, with its body; messages that a consumer saw exist; acknowledged topics exist; the store accepts
messages; and after a clean stop `gantrymq store check` finds nothing.

    GANTRYMQ_POWER_CUTS      cuts of each file system; 1 by default, 50 with -m long
    GANTRYMQ_POWER_CUT_SEED  seed of all choices
    GANTRYMQ_POWER_CUT       the number of the only cut to make

Requires root, loop devices, and an xfs with reflink, which the test creates.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path

import pytest
from durability_rig.load import TOPICS
from durability_rig.loop_disks import NoLoopDisksError, Shelf
from durability_rig.power_history import History, Life, LoadPhase, Outcome, PowerHistory, drawn
from durability_rig.writeback import writeback_held

SEED = os.environ.get("GANTRYMQ_POWER_CUT_SEED", "4711")
SOME, MANY = 1, 50
FILE_SYSTEMS = ("ext4", "xfs")

Cut = Callable[[History], Outcome]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelf]:
    """Folder of the disks."""
    with ExitStack() as stack:
        try:
            made = stack.enter_context(Shelf(tmp_path_factory.mktemp("shelf")))
        except NoLoopDisksError as error:
            pytest.skip(str(error))
        yield made


@pytest.fixture(params=FILE_SYSTEMS)
def cut(request: pytest.FixtureRequest, shelf: Shelf, tmp_path: Path) -> Cut:
    """Go through a history on a new disk."""

    def run(history: History) -> Outcome:
        scratch = tmp_path / "processes"
        shutil.rmtree(scratch, ignore_errors=True)
        with writeback_held() as held, ExitStack() as stack:
            try:
                disk = stack.enter_context(shelf.disk("disk", request.param))
            except NoLoopDisksError as error:
                pytest.skip(str(error))
            print(f"{request.param}, {'direct' if disk.direct else 'buffered'} I/O, {held}: {history}")
            outcome = PowerHistory(history, disk, scratch).run()
        print(f"  {outcome.findings}\n  after it {outcome.after}\n  {outcome.told.strip()}")
        return outcome

    return run


def assert_nothing_is_lost(outcome: Outcome) -> None:
    """Check that no acknowledged message is lost, before or after the cut, and that the files are sound."""
    assert outcome.findings.problems == 0, f"{outcome.findings}\n{outcome.told}"
    assert outcome.after.problems == 0, f"after more was sent: {outcome.after}\n{outcome.told}"
    assert outcome.after.acknowledged > outcome.findings.acknowledged
    assert outcome.check == [], "\n".join([*outcome.check, outcome.told])


@pytest.mark.parametrize("cuts", [pytest.param(SOME, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.long)])
def test_every_acknowledged_message_survives_power_cuts(
    cuts: int, cut: Cut, record_property: Callable[[str, object], None]
) -> None:
    cuts = int(os.environ.get("GANTRYMQ_POWER_CUTS", cuts))
    one = os.environ.get("GANTRYMQ_POWER_CUT")
    record_property("seed", SEED)
    acknowledged = 0
    wrong: list[str] = []
    for number in [int(one)] if one else range(cuts):
        print(f"seed {SEED}, cut {number}")
        outcome = cut(drawn(f"{SEED}/{number}"))
        acknowledged += outcome.findings.acknowledged
        try:
            assert_nothing_is_lost(outcome)
        except AssertionError as error:
            wrong.append(f"GANTRYMQ_POWER_CUT_SEED={SEED} GANTRYMQ_POWER_CUT={number}: {error}")
    record_property("findings", f"{cuts} cuts, {acknowledged} acknowledged, {len(wrong)} went wrong")
    print(f"total: {cuts} cuts, {acknowledged} acknowledged, {len(wrong)} went wrong")
    assert not wrong, "\n\n".join(wrong[:5])
    assert acknowledged > 20 * (1 if one else cuts)


def idle_topic(sends_s: float, idle_s: float, on_s: float, tick_ms: int, thorough_ms: int, beside: bool) -> History:
    """Stop sending to one topic, kill -9, then send to the other topics until the power cut.

    With *beside*, the other topics get messages from the start.
    """
    first, others = (TOPICS if beside else TOPICS[:1]), TOPICS[1:]
    before = (LoadPhase(first, sends_s), LoadPhase(others if beside else (), idle_s))
    tick = {"flushIntervalConsumeQueue": tick_ms}
    after = {**tick, "flushConsumeQueueThoroughInterval": thorough_ms}
    return History(f"idle/{on_s}", (Life(tick, before), Life(after, (LoadPhase(others, on_s),))))


BRIEF = idle_topic(1.0, 1.6, 6.0, tick_ms=200, thorough_ms=1500, beside=False)
USUAL = idle_topic(4.0, 8.0, 20.0, tick_ms=1000, thorough_ms=10_000, beside=True)


@pytest.mark.parametrize(
    "history", [pytest.param(BRIEF, id="brief"), pytest.param(USUAL, id="usual", marks=pytest.mark.long)]
)
def test_a_topic_that_is_idle_from_before_a_kill_to_the_power_cut_keeps_its_messages(
    history: History, cut: Cut
) -> None:
    """Its queue entries were written before the kill and synced by nobody: the start after it may not take them for
    durable, lest the checkpoint pass their records."""
    assert_nothing_is_lost(cut(history))


def test_a_power_cut_loses_unsynced_data(cut: Cut) -> None:
    """The disks and the cut are right: a broker that acknowledges before it syncs loses what it acknowledged."""
    unsynced = {"flushDiskType": "ASYNC_FLUSH", "flushIntervalCommitLog": 60_000}
    findings = cut(History("unsynced", (Life(unsynced, (LoadPhase(TOPICS, 2.0),)),))).findings
    assert findings.lost > findings.acknowledged / 2
    assert (findings.duplicated, findings.moved, findings.damaged, findings.foreign) == (0, 0, 0, 0)


def test_a_seed_makes_the_same_history_and_seeds_make_different_ones() -> None:
    drawings = [drawn(f"{SEED}/{number}") for number in range(200)]
    assert drawings == [drawn(f"{SEED}/{number}") for number in range(200)]
    assert all(one != other for one, other in pairwise(drawings))
    assert {len(history.lives) for history in drawings} == {1, 2, 3}
    idle = [len(history.lives) > 1 and len(history.lives[-2].phases[-1].topics) < len(TOPICS) for history in drawings]
    assert 0 < sum(idle) < len(idle)
    assert 0 < sum(history.start_cut_s is not None for history in drawings) < len(drawings)
