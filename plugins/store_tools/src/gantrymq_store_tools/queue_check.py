"""Comparison of consume queues with the log, and checks of ext files.

Every record has its entry, and every entry its record.

Parts of the log arrive in order (`record_entries.RangePart`). A run of entries is compared with the queue's bytes at
once; only if they differ, each entry is compared:

    queue.missing     the log has the record; the queue has nothing, or a pre-blank entry, at its offset
    queue.wrong       an entry that names another log offset or size
    queue.code        log offset and size are right, the tags code is not
    queue.due_time    the same in SCHEDULE_TOPIC_XXXX: another due time than that of the delay level
    queue.offset      a record whose queue offset does not fit the records around it (`queue_order`)
    queue.unusable    records whose topic or queue id cannot be a folder name
    queue.double      two records of the log have the same queue offset
    queue.no_record   an entry for a log offset without a sound record: damaged, or after the end of the log
    queue.lost        an entry that repeats its neighbour, or a blank one between others, for a lost record; not damage
    queue.stray       bytes after the queue's end

If the store was not shut down cleanly, wrong entries for log offsets after the checkpoint are left to the next start
(`vouched`).

Entries before the first record's may be pre-blank or name records that have been deleted from the log. A tags code that
is an address is looked up in the ext files (ext.wrong: not a complete unit, or another code or time).

Ext files are also checked on their own (`check_ext`): consecutive complete units.

    ext.damaged       a unit whose lengths do not add up
    ext.stray         bytes after the last unit of a file
"""

from __future__ import annotations

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.model import Queue
from gantrymq.plugin.names import SCHEDULE_TOPIC
from gantrymq_store_files.ext_unit import END_OF_UNITS, MAX_UNIT_BYTES, ExtUnit, ext_position, read_ext_unit
from gantrymq_store_files.queue_entry import ENTRY, ENTRY_BYTES, is_ext_address, is_pre_blank
from gantrymq_store_tools.config_check import NO_LIMIT
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout, Series
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.queue_order import QueueOrder, SettledRun, name_problem
from gantrymq_store_tools.record_entries import RangePart, Run

_READ_ENTRIES = 4096
_EMPTY = Series()
_ZEROS = bytes(_READ_ENTRIES * ENTRY_BYTES)


def check_ext(layout: Layout, open_files: OpenFiles) -> list[Finding]:
    """Check the units of every ext file. One file is in memory at a time (48 MiB with RocketMQ's default size)."""
    found = []
    for _, series in sorted(layout.ext.items()):
        for file in series.files:
            name = layout.name(file.path)
            try:
                data = open_files.read(file.path, 0, file.size)
            except OSError as error:
                found.append(Finding("ext.unreadable", name, f"{name} cannot be read: {error}"))
                continue
            position = 0
            try:
                while (unit := read_ext_unit(data, position)) is not None:
                    position += unit.size
            except FormatError as problem:
                found.append(Finding("ext.damaged", name, f"{name}: {problem}", position))
                continue
            marked = data[position : position + 2] == END_OF_UNITS
            rest = data[position + 2 :] if marked else data[position:]
            if stray := len(rest.rstrip(b"\0")):
                text = f"{name}: {stray} bytes after the end of its units at {position}"
                found.append(Finding("ext.stray", name, text, position, stray))
            elif not marked and file is not series.files[-1] and len(rest) >= 2:
                text = f"{name}: its units end at {position} without the end mark that refers readers to the next file"
                found.append(Finding("ext.damaged", name, text, position))
    return found


class QueueCheck:
    """Compares the ordinary queues of one store with the log. Call `check_part` for each part, then `finish`."""

    def __init__(
        self,
        layout: Layout,
        open_files: OpenFiles,
        known_topics: frozenset[str] | None = None,
        vouched_to: int = NO_LIMIT,
    ) -> None:
        """Nothing is read yet.

        Args:
            layout: the store's files.
            open_files: reads the files.
            known_topics: the topics of topics.json; any other topic without a queue was deleted. None if unknown.
            vouched_to: see `config_check.vouched_to`.
        """
        self.findings: list[Finding] = []
        self.entries = 0
        self._known = known_topics
        self._vouched_to = vouched_to
        self._deleted: dict[str, int] = {}
        self._layout = layout
        self._open = open_files
        self._orders: dict[Queue, QueueOrder] = {}
        self._repeats: set[tuple[int, int]] = set()  # entries that entries for lost records may repeat
        # kind, path and damage of the newest finding, and the queue offset after it
        self._last: tuple[str, str, bool, int] | None = None

    def check_part(self, part: RangePart) -> None:
        """Compare the entries of *part* with the files."""
        for queue, runs in part.queues.items():
            series = self._layout.queues.get(queue, _EMPTY)
            if series is _EMPTY and self._known is not None and queue.topic not in self._known:
                self._deleted[queue.topic] = self._deleted.get(queue.topic, 0) + sum(
                    run.end - run.start for run in runs
                )
                continue
            order = self._orders.get(queue)
            if order is None:
                order = self._orders[queue] = QueueOrder()
                if (problem := name_problem(queue)) is not None:
                    self._add("unusable", queue, runs[0].start, f"records say they are of {problem}")
            for run in runs:
                before, last = order.end, order.last
                for settled in order.feed(run):
                    self._settled(queue, series, settled, before, last)
                    before, last = settled.run.end, _last(settled.run)

    def finish(self) -> list[Finding]:
        """Check the entries before and after the compared ones, and return all findings."""
        for queue, order in self._orders.items():
            before, last = order.end, order.last
            for settled in order.finish():
                self._settled(queue, self._layout.queues.get(queue, _EMPTY), settled, before, last)
        for queue, series in sorted(self._layout.queues.items()):
            if any(file.size != series.file_bytes for file in series.files) and series.file_bytes % ENTRY_BYTES:
                continue  # reported by the layout; entry positions are unknown
            state = self._orders.get(queue)
            self._repeats = set() if state is None else {state.last}
            first = series.start // ENTRY_BYTES
            if state is None:
                self._no_records(queue, series, first, series.end // ENTRY_BYTES, gap=False)
                continue
            if first < state.first:
                self._no_records(queue, series, first, state.first, gap=True)
            self._no_records(queue, series, state.end, series.end // ENTRY_BYTES, gap=False)
        for topic, count in sorted(self._deleted.items()):
            text = (
                f"topic {topic} has {count} messages in the log, no queue and no entry in topics.json: it was deleted"
            )
            self.findings.append(Finding("queue.deleted", f"consumequeue/{topic}", text, damage=False))
        return self.findings

    def _settled(self, queue: Queue, series: Series, settled: SettledRun, end: int, last: tuple[int, int]) -> None:
        """Compare a run; *end* and *last* are end and last record of the run before it, *end* is -1 for the first."""
        run = settled.run
        if settled.stated != run.start:
            place, _, _ = ENTRY.unpack_from(run.entries)
            self._add(
                "offset", queue, run.start, f"the record at log offset {place} states queue offset {settled.stated}"
            )
        if 0 <= end < run.start:
            self._repeats = {last, ENTRY.unpack_from(run.entries)[:2]}
            self._no_records(queue, series, end, run.start, gap=True)
        elif 0 <= run.start < end:
            self._again(queue, end, run)
        self._compare(queue, series, run)

    def _again(self, queue: Queue, end: int, run: Run) -> None:
        """Report offsets that are used a second time: from 0 on the topic was deleted and recreated, otherwise a fault.

        Findings about the first use are dropped: the queue can only hold the second.
        """
        path = _path(queue)
        self.findings = [each for each in self.findings if each.path != path or (each.place or 0) < run.start]
        self._last = None
        place, size, _ = ENTRY.unpack_from(run.entries)
        sentence = f"queue {queue.topic}/{queue.queue_id}: the record at log offset {place} ({size} bytes)"
        if run.start == 0:
            text = f"{sentence} starts the queue again; the topic was deleted and recreated"
            self.findings.append(Finding("queue.restarted", path, text, 0, damage=False))
        else:
            text = f"{sentence} has queue offset {run.start}, which an earlier record before {end} already has"
            self.findings.append(Finding("queue.double", path, text, run.start, end - run.start))

    # --- entries with a record --------------------------------------------------------------------------------------

    def _compare(self, queue: Queue, series: Series, run: Run) -> None:
        self.entries += run.end - run.start
        view = memoryview(run.entries)
        for at in range(0, len(view), _READ_ENTRIES * ENTRY_BYTES):
            wanted = view[at : at + _READ_ENTRIES * ENTRY_BYTES]
            got = self._read(queue, series, run.start * ENTRY_BYTES + at, len(wanted))
            if got != wanted:
                self._compare_each(queue, run.start + at // ENTRY_BYTES, got, wanted)

    def _compare_each(self, queue: Queue, queue_offset: int, got: bytes, wanted: memoryview) -> None:
        for at in range(0, len(wanted), ENTRY_BYTES):
            place, size, code = ENTRY.unpack_from(wanted, at)
            got_place, got_size, got_code = ENTRY.unpack_from(got, at)
            offset = queue_offset + at // ENTRY_BYTES
            if got_size <= 0 or got_place < 0 or is_pre_blank(got_place, got_size):
                self._add("missing", queue, offset, f"no entry for the record at log offset {place}", names=place)
            elif (got_place, got_size) != (place, size):
                text = f"the entry names {got_size} bytes at {got_place}, its record has {size} at {place}"
                self._add("wrong", queue, offset, text, names=place)
            elif is_ext_address(got_code):
                self._check_unit(queue, offset, got_code, code, place)
            elif got_code != code:
                self._wrong_code(queue, offset, got_code, code, place)

    def _wrong_code(self, queue: Queue, queue_offset: int, got: int, code: int, place: int) -> None:
        if queue.topic == SCHEDULE_TOPIC:
            text = f"the due time is {got}, but its delay level gives {code}"
            self._add("due_time", queue, queue_offset, text)  # a kill leaves no wrong due times
        else:
            self._add("code", queue, queue_offset, f"the tags code is {got}, the record's is {code}", names=place)

    def _check_unit(self, queue: Queue, queue_offset: int, address: int, code: int, place: int) -> None:
        series = self._layout.ext.get(queue, _EMPTY)
        position = ext_position(address)
        problem = "the file does not exist"
        unit: ExtUnit | None = None
        if series.start <= position < series.end:
            left = series.file_bytes - position % series.file_bytes
            try:
                unit = read_ext_unit(self._open.read_series(series, position, min(left, MAX_UNIT_BYTES)), 0)
                problem = "no unit starts there" if unit is None else f"its tags code is {unit.tags_code}, not {code}"
            except (FormatError, OSError) as error:
                problem = str(error)
        if unit is not None and unit.tags_code != code and queue.topic == SCHEDULE_TOPIC:
            self._wrong_code(queue, queue_offset, unit.tags_code, code, place)
        elif unit is None or unit.tags_code != code:
            self._add(
                "wrong", queue, queue_offset, f"ext unit at position {position}: {problem}", part="ext", names=place
            )

    # --- entries without a record -----------------------------------------------------------------------------------

    def _no_records(self, queue: Queue, series: Series, start: int, end: int, *, gap: bool) -> None:
        """Check entries ``[start, end)``, which have no record in the log; after a queue's last record only zeros are
        expected.
        """
        log_start = self._layout.log.start
        empty_at = -1
        if gap and end > (there := max(start, series.end // ENTRY_BYTES)):  # the files end earlier
            self._gap(queue, there, end - there, log_start)
            end = there
        if not gap:
            end = min(end, self._used_end(series))
        for first in range(max(start, series.start // ENTRY_BYTES), end, _READ_ENTRIES):
            data = self._read(queue, series, first * ENTRY_BYTES, min(_READ_ENTRIES, end - first) * ENTRY_BYTES)
            if data == _ZEROS[: len(data)]:
                if not gap and empty_at < 0:
                    empty_at = first
                if gap:
                    self._gap(queue, first, len(data) // ENTRY_BYTES, log_start)
                continue
            for at in range(0, len(data), ENTRY_BYTES):
                place, size, _ = ENTRY.unpack_from(data, at)
                offset = first + at // ENTRY_BYTES
                if size <= 0 or place < 0:
                    if gap:
                        self._gap(queue, offset, 1, log_start)
                    elif any(data[at : at + ENTRY_BYTES]):
                        self._add("stray", queue, offset, "bytes after the queue's end that are not an entry")
                    elif empty_at < 0:
                        empty_at = offset
                elif empty_at >= 0:
                    text = f"an entry follows the queue's end at {empty_at}"
                    self._add("stray", queue, offset, text, names=place)
                elif is_pre_blank(place, size):
                    state = self._orders.get(queue)
                    if state is not None and offset >= state.first:
                        self._add("lost", queue, offset, "the entry is blank: its message is lost", damage=False)
                elif (place, size) in self._repeats:
                    self._add("lost", queue, offset, "the entry repeats another: its message is lost", damage=False)
                elif place >= log_start:
                    text = f"the entry names {size} bytes at log offset {place}, where the queue has no sound record"
                    self._add("no_record", queue, offset, text, names=place)

    def _gap(self, queue: Queue, queue_offset: int, count: int, log_start: int) -> None:
        state = self._orders.get(queue)
        if state is None or queue_offset >= state.first or log_start == 0:
            self._add(
                "missing", queue, queue_offset, "there is no entry, and the log has no record for it", count=count
            )

    def _used_end(self, series: Series) -> int:
        """Return the queue offset after which the files are a hole."""
        try:
            return -(-self._open.used_end(series) // ENTRY_BYTES)
        except OSError:  # reported by a read
            return series.end // ENTRY_BYTES

    def _read(self, queue: Queue, series: Series, position: int, length: int) -> bytes:
        try:
            return self._open.read_series(series, position, length)
        except OSError as error:
            self._add("unreadable", queue, position // ENTRY_BYTES, str(error))
            return bytes(length)

    def _add(
        self,
        kind: str,
        queue: Queue,
        queue_offset: int,
        text: str,
        *,
        part: str = "queue",
        damage: bool = True,
        count: int = 1,
        names: int = -1,
    ) -> None:
        """Add a finding of *count* entries, or extend the newest one; *names*: the log offset the entries name."""
        path = _path(queue)
        name = f"{part}.{kind}"
        recovery = names >= self._vouched_to
        damage = damage and not recovery
        if self._last == (name, path, damage, queue_offset):
            before = self.findings[-1]
            self.findings[-1] = attrs.evolve(before, extent=(before.extent or 0) + count)
        else:
            sentence = f"queue {queue.topic}/{queue.queue_id}, offset {queue_offset}: {text}"
            self.findings.append(Finding(name, path, sentence, queue_offset, count, damage, recovery))
        self._last = (name, path, damage, queue_offset + count)


def _last(run: Run) -> tuple[int, int]:
    """Return log offset and size of a run's last record."""
    place, size, _ = ENTRY.unpack_from(run.entries, len(run.entries) - ENTRY_BYTES)
    return place, size


def _path(queue: Queue) -> str:
    return f"consumequeue/{queue.topic}/{queue.queue_id}"
