"""The dispatcher contract passes a correct dispatcher and detects each kind of fault."""

import json

import pytest

from gantrymq_testing import DispatcherContract


class Journal:
    """Notes the log offset of every entry, in one file together with the position."""

    name = "journal"

    def __init__(self, context):
        self.files = context.world.files
        self.path = context.root / "journal.json"
        self.done, self.seen, self.written = 0, [], 0
        if self.files.stat(self.path) is not None:
            self.done, self.seen = json.loads(self.files.read(self.path))
            self.written = self.done

    def position(self):
        return self.written

    def dispatch(self, entries):
        for entry in entries:
            if entry.log_offset >= self.done:
                self.seen.append([entry.topic, entry.log_offset])
                self.done = entry.log_offset + entry.size

    def truncate(self, log_offset):
        if self.done > log_offset:
            self.seen = [each for each in self.seen if each[1] < log_offset]
            self.done = log_offset
            self.flush()

    def flush(self):
        if self.done != self.written:
            self.files.replace(self.path, json.dumps([self.done, self.seen]).encode())
            self.written = self.done


class Examples(DispatcherContract):
    maker = Journal

    def make_dispatcher(self, context):
        return self.maker(context)

    def outcome(self, dispatcher):
        return dispatcher.seen


class TestGoodDispatcher(Examples):
    pass


class Eager(Journal):
    """Reports data in memory as if it were on disk."""

    def position(self):
        return self.done


class Forgetful(Journal):
    """Starts with the position but without the results of the log."""

    def __init__(self, context):
        super().__init__(context)
        self.seen = []


class Repeating(Journal):
    """Treats repeated entries as new ones."""

    def dispatch(self, entries):
        for entry in entries:
            self.seen.append([entry.topic, entry.log_offset])
            self.done = entry.log_offset + entry.size


class Keeping(Journal):
    """Moves the position back after a truncation and keeps the results of the removed part."""

    def truncate(self, log_offset):
        if self.done > log_offset:
            self.done = log_offset
            self.flush()


class Postponing(Journal):
    """Writes a truncation to disk only with the next flush."""

    def truncate(self, log_offset):
        if self.done > log_offset:
            self.seen = [each for each in self.seen if each[1] < log_offset]
            self.done = log_offset


class Unsynced(Journal):
    """Writes its file in place and never syncs it."""

    def flush(self):
        if self.done != self.written:
            file = self.files.open(self.path, create=True)
            file.truncate(0)
            file.pwrite(json.dumps([self.done, self.seen]).encode(), 0)
            file.close()
            self.written = self.done


class TwoFiles(Journal):
    """Writes the position before the data that it covers."""

    def __init__(self, context):
        super().__init__(context)
        self.other = self.path.with_name("position.json")
        if self.files.stat(self.other) is not None:
            self.done = self.written = json.loads(self.files.read(self.other))

    def flush(self):
        if self.done != self.written:
            self.files.replace(self.other, json.dumps(self.done).encode())
            self.files.replace(self.path, json.dumps([self.done, self.seen]).encode())
            self.written = self.done


@pytest.mark.parametrize(
    ("wrong", "case", "arguments"),
    [
        (Eager, "test_a_position_that_was_told_survives_a_kill", {}),
        (Forgetful, "test_a_restart_goes_on_where_the_last_one_stopped", {}),
        (Repeating, "test_what_comes_twice_changes_nothing", {}),
        (Keeping, "test_a_cut_forgets_what_was_cut_off", {"kept": 9}),
        (Postponing, "test_a_cut_is_durable_at_once", {}),
        (Unsynced, "test_what_a_flush_wrote_is_synced", {}),
        (TwoFiles, "test_raising_keeps_the_position_true", {"done": False}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_wrong_one_is_caught(wrong, case, arguments, tmp_path):
    from gantrymq_testing.dispatcher_contract_bench import DispatcherBench

    contract = type("Contract", (Examples,), {"maker": wrong})()
    test = getattr(contract, case)
    names = test.__code__.co_varnames[: test.__code__.co_argcount]
    if "bench" in names:
        arguments["bench"] = DispatcherBench(contract.make_dispatcher, tmp_path / "store")
    if "tmp_path" in names:
        arguments["tmp_path"] = tmp_path
    with pytest.raises(AssertionError):
        test(**arguments)
