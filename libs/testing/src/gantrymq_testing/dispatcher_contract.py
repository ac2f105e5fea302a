"""Contract tests for dispatchers.

A plugin's test derives from `DispatcherContract`, creates the dispatcher, and returns its results:

    class TestMyDispatcher(DispatcherContract):
        def make_dispatcher(self, context):
            return MyDispatcher(context)

        def outcome(self, dispatcher):
            return dispatcher.counts()

Most cases compare outcomes: after any sequence of stops, kills and replays, a dispatcher must have the results of one
that read the log once and in order. A kill is simulated by copying the folder and creating a new dispatcher on the
copy, so state must be under ``context.root`` and be written through ``context.world.files``.

The rules: `gantrymq.interfaces.Dispatcher`; its use in a broker: `gantrymq.broker.sending.dispatchers`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gantrymq.interfaces import DispatchEntry, Dispatcher, StoreContext
from gantrymq_testing.dispatcher_contract_bench import (
    DispatcherBench,
    dying_world,
    end_of,
    in_batches,
    made_entries,
)

MAX_CALLS = 200  # changing calls of Files in one run with a failing disk
BATCH = 4  # entries


class DispatcherContract:
    """Derive and define `make_dispatcher` and `outcome`."""

    def make_dispatcher(self, context: StoreContext) -> Dispatcher:
        """Create a dispatcher with its state under ``context.root``; called again on the same folder for a restart."""
        raise NotImplementedError

    def outcome(self, dispatcher: Dispatcher) -> Any:
        """Return the results of all handled entries, as a comparable value."""
        raise NotImplementedError

    def same(self, outcome: Any, expected: Any) -> bool:
        """Return whether *outcome* is complete. Override it if an entry handled twice may leave a trace."""
        return bool(outcome == expected)

    def entries(self) -> Sequence[DispatchEntry]:
        """The log that the cases play, at least 12 entries; the first starts at log offset 0."""
        return made_entries(24)

    @pytest.fixture
    def bench(self, tmp_path: Path) -> DispatcherBench:
        """A new dispatcher on an empty folder."""
        return DispatcherBench(self.make_dispatcher, tmp_path / "store")

    def expected(self, log: Sequence[DispatchEntry], tmp_path: Path) -> Any:
        """The outcome of one that sees *log* once, in one batch."""
        folder = tmp_path / f"expected-{len(list(tmp_path.iterdir()))}"
        dispatcher = DispatcherBench(self.make_dispatcher, folder).dispatcher
        dispatcher.dispatch(log)
        return self.outcome(dispatcher)

    def check(self, dispatcher: Dispatcher, expected: Any) -> None:
        """Fail unless the outcome is complete."""
        outcome = self.outcome(dispatcher)
        assert self.same(outcome, expected), f"made {outcome!r} of the log instead of {expected!r}"

    # --- one life ---------------------------------------------------------------------------------------------------

    def test_has_a_name_that_stays(self, bench: DispatcherBench) -> None:
        name = bench.dispatcher.name
        assert name
        assert name == name.strip()
        assert bench.restarted().dispatcher.name == name

    def test_a_new_one_begins_at_the_start_of_the_log(self, bench: DispatcherBench) -> None:
        assert bench.dispatcher.position() == 0

    def test_the_outcome_tells_logs_apart(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        assert not self.same(self.outcome(bench.dispatcher), self.expected(log, tmp_path))

    @pytest.mark.parametrize("batch", [1, 3, 1000])
    def test_the_length_of_batches_means_nothing(self, bench: DispatcherBench, tmp_path: Path, batch: int) -> None:
        log = self.entries()
        for entries in in_batches(log, batch):
            bench.dispatcher.dispatch(entries)
        self.check(bench.dispatcher, self.expected(log, tmp_path))

    def test_a_flush_takes_the_position_to_the_end_of_what_was_handled(self, bench: DispatcherBench) -> None:
        for entries in in_batches(self.entries(), BATCH):
            bench.dispatcher.dispatch(entries)
            bench.dispatcher.flush()
            assert bench.dispatcher.position() == end_of(entries)

    def test_an_empty_batch_and_a_second_flush_change_nothing(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(())
        bench.dispatcher.flush()
        assert bench.dispatcher.position() == 0
        bench.dispatcher.dispatch(log)
        for _ in range(2):
            bench.dispatcher.flush()
            bench.dispatcher.dispatch(())
            assert bench.dispatcher.position() == end_of(log)
        self.check(bench.dispatcher, self.expected(log, tmp_path))

    def test_what_comes_twice_changes_nothing(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log[:8])
        bench.dispatcher.dispatch(log[5:])
        bench.dispatcher.flush()
        bench.dispatcher.dispatch(log[:3])
        bench.dispatcher.flush()
        assert bench.dispatcher.position() == end_of(log)
        self.check(bench.dispatcher, self.expected(log, tmp_path))

    # --- stops and kills --------------------------------------------------------------------------------------------

    def test_a_restart_goes_on_where_the_last_one_stopped(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log[:10])
        bench = bench.restarted()
        assert bench.dispatcher.position() == end_of(log[:10])
        self.check(bench.dispatcher, self.expected(log[:10], tmp_path))
        self.check(bench.catch_up(log), self.expected(log, tmp_path))

    def test_the_position_is_never_ahead_of_what_was_handled(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        for number, entries in enumerate(in_batches(log, BATCH)):
            bench.dispatcher.dispatch(entries)
            if number % 3 == 1:
                bench.dispatcher.flush()
            assert bench.dispatcher.position() <= end_of(entries)
            revived = bench.killed()
            assert revived.dispatcher.position() <= end_of(entries)
            self.check(revived.catch_up(log), self.expected(log, tmp_path))

    def test_a_position_that_was_told_survives_a_kill(self, bench: DispatcherBench) -> None:
        for number, entries in enumerate(in_batches(self.entries(), BATCH)):
            bench.dispatcher.dispatch(entries)
            if number % 2:
                bench.dispatcher.flush()
            assert bench.killed().dispatcher.position() >= bench.dispatcher.position()

    def test_a_kill_without_a_flush_loses_nothing(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log[:10])
        self.check(bench.killed().catch_up(log), self.expected(log, tmp_path))

    def test_a_kill_between_replay_and_flush_loses_nothing(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log[:6])
        bench.dispatcher.flush()
        bench.dispatcher.dispatch(log[6:12])
        once = bench.killed()
        once.catch_up(log[:12], batch=2)
        twice = once.killed()
        self.check(twice.catch_up(log, batch=5), self.expected(log, tmp_path))

    def test_what_a_flush_wrote_is_synced(self, bench: DispatcherBench) -> None:
        for entries in in_batches(self.entries(), BATCH):
            bench.dispatcher.dispatch(entries)
            bench.dispatcher.flush()
            calls = bench.files.calls
            for path in {call.path for call in calls}:
                assert bench.files.unsynced(path, len(calls)) == [], f"{path} was written and not synced"

    # --- a log that was cut -----------------------------------------------------------------------------------------

    def test_a_cut_behind_the_position_changes_nothing(self, bench: DispatcherBench, tmp_path: Path) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log)
        bench.dispatcher.flush()
        for log_offset in (end_of(log), end_of(log) + 1, 1 << 60):
            bench.dispatcher.truncate(log_offset)
            assert bench.dispatcher.position() == end_of(log)
        self.check(bench.dispatcher, self.expected(log, tmp_path))

    @pytest.mark.parametrize("kept", [0, 1, 9, 23])
    def test_a_cut_forgets_what_was_cut_off(self, bench: DispatcherBench, tmp_path: Path, kept: int) -> None:
        log = self.entries()
        bench.dispatcher.dispatch(log)
        bench = bench.restarted()
        cut = log[kept].log_offset
        bench.dispatcher.truncate(cut)
        assert bench.dispatcher.position() <= cut
        other = [*log[:kept], *made_entries(9, cut, ("Other", "Orders"))]
        self.check(bench.catch_up(other), self.expected(other, tmp_path))
        self.check(bench.restarted().catch_up(other), self.expected(other, tmp_path))

    def test_a_cut_is_durable_at_once(self, bench: DispatcherBench, tmp_path: Path) -> None:
        """Otherwise a log that has grown past the old position would hide the difference at the next start."""
        log = self.entries()
        bench.dispatcher.dispatch(log)
        bench = bench.restarted()
        cut = log[7].log_offset
        bench.dispatcher.truncate(cut)
        revived = bench.killed()
        assert revived.dispatcher.position() <= cut
        longer = [*log[:7], *made_entries(40, cut, ("Other",))]
        self.check(revived.catch_up(longer), self.expected(longer, tmp_path))

    # --- a disk that dies -------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("done", [False, True], ids=["nothing written", "written, then failed"])
    def test_raising_keeps_the_position_true(self, tmp_path: Path, done: bool) -> None:
        """For every changing call of `Files`: the broker suspends a dispatcher that raises, and restarts it later."""
        log = self.entries()
        expected = self.expected(log, tmp_path)
        for fail_at in range(MAX_CALLS):
            world, files = dying_world(fail_at, done=done)
            root = tmp_path / f"dying-{fail_at}"
            told, handled = self._until_it_raises(root, world, log)
            if not files.failed:
                return
            revived = DispatcherBench(self.make_dispatcher, root)
            position = revived.dispatcher.position()
            assert told <= position <= handled, f"position {position} after a failure at call {fail_at}"
            self.check(revived.catch_up(log), expected)
        pytest.fail(f"a dispatcher that makes more than {MAX_CALLS} changing calls for {len(log)} entries")

    def _until_it_raises(self, root: Path, world: Any, log: Sequence[DispatchEntry]) -> tuple[int, int]:
        """Replay *log* until an exception; return the last reported position, and the end of the handled entries."""
        told = handled = 0
        root.mkdir()
        try:
            bench = DispatcherBench(self.make_dispatcher, root, world)
            for entries in in_batches(log, BATCH):
                handled = end_of(entries)
                bench.dispatcher.dispatch(entries)
                told = bench.dispatcher.position()
                bench.dispatcher.flush()
                told = bench.dispatcher.position()
        except Exception:  # any exception: a broker suspends the dispatcher in every case
            told = max(told, bench.dispatcher.position()) if handled else 0
        return told, handled
