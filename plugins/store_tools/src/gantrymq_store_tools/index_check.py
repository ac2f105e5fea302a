"""Checks of index files: each one on its own, and all of them against the keys of the log.

A file on its own must be what adding its entries in order produces:

    index.header    counts or offsets in the header that do not match its entries
    index.chain     an entry with a wrong predecessor, or a slot with a wrong newest entry
    index.order     an entry whose log offset is less than that of the entry before it

Against the log, whose parts arrive in order:

    index.missing   keys of records that have no entry
    index.wrong     an entry whose hash matches no key of its record, or whose seconds are wrong
    index.no_record an entry for a log offset without a sound record

Several entries for one key of one record are allowed: Java's dispatch repeats some after a crash. Entries for tags are
optional. After a crash, every file that the checkpoint does not cover is rebuilt. Problems in such a file, entries for
log offsets that the checkpoint does not cover (`vouched`), and missing keys of newer records are therefore left to the
next start.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gantrymq_store_files.index import (
    ENTRY,
    HEADER_BYTES,
    SLOT_BYTES,
    IndexHeader,
    IndexLayout,
    entry_seconds,
    read_header,
)
from gantrymq_store_tools.config_check import NO_LIMIT
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout, StoreFile
from gantrymq_store_tools.open_files import OpenFiles
from gantrymq_store_tools.record_entries import RangePart

_READ_ENTRIES = 8192
_Tell = Callable[[str, str, int], None]  # kind, sentence, position in the file


class _Entry(NamedTuple):
    log_offset: int
    key_hash: int
    seconds: int
    begin: int  # ms, the time its seconds count from; -1 if the file does not say
    number: int
    file: StoreFile
    vouched: bool  # whether the checkpoint covers its file


class IndexCheck:
    """Checks the index of one store. Call `check_part` for each part of the log, then `finish`."""

    def __init__(
        self,
        layout: Layout,
        index_layout: IndexLayout | None,
        open_files: OpenFiles,
        vouched_until_ms: int = NO_LIMIT,
        vouched_to: int = NO_LIMIT,
    ) -> None:
        """Nothing is read yet.

        Args:
            layout: the store's files.
            index_layout: slots and entries of a file, None if unknown.
            open_files: reads the files.
            vouched_until_ms: after a crash, the checkpoint's index time; files that end later are rebuilt by the next
                start.
            vouched_to: see `config_check.vouched_to`.
        """
        self.findings: list[Finding] = []
        self.entries = 0
        self.tag_entries = 0
        self._layout = layout
        self._index_layout = index_layout
        self._open = open_files
        self._vouched_until_ms, self._vouched_to = vouched_until_ms, vouched_to
        self._stream = self._all_entries()
        self._next = next(self._stream, None)
        self._begins_at = self._next.log_offset if self._next is not None else -1
        self._missing_before = 0  # keys of records older than the index
        self._missing: tuple[int, int, int, bool] | None = None  # first and last log offset, keys, whether vouched for

    def check_part(self, part: RangePart) -> None:
        """Compare the keys of *part* with the index."""
        if self._index_layout is None or not self._layout.index:
            return
        columns = part.index
        log_offsets, hashes, tags, timestamps = columns.log_offsets, columns.hashes, columns.tags, columns.timestamps
        at, count = 0, len(log_offsets)
        while at < count:
            log_offset, first = log_offsets[at], at
            while at < count and log_offsets[at] == log_offset:
                at += 1
            wanted = {hashes[n] for n in range(first, at) if not tags[n]}
            self._record(log_offset, wanted, {hashes[n] for n in range(first, at) if tags[n]}, timestamps[first])

    def finish(self) -> list[Finding]:
        """Report the remaining entries, which have no record, and return all findings."""
        while self._next is not None:
            self._no_record(self._next)
            self._next = next(self._stream, None)
        self._flush_missing()
        if self._missing_before:
            text = f"the index begins at log offset {self._begins_at}; it lacks {self._missing_before} keys before that"
            self.findings.append(Finding("index.missing", "index", text, self._layout.log.start))
        return self.findings

    # --- against the log --------------------------------------------------------------------------------------------

    def _record(self, log_offset: int, wanted: set[int], tags: set[int], timestamp: int) -> None:
        while self._next is not None and self._next.log_offset < log_offset:
            self._no_record(self._next)
            self._next = next(self._stream, None)
        found = set()
        while self._next is not None and self._next.log_offset == log_offset:
            entry = self._next
            if entry.key_hash in wanted:
                found.add(entry.key_hash)
            elif entry.key_hash in tags:
                self.tag_entries += 1
            else:
                self._wrong(entry, f"hash {entry.key_hash} belongs to no key of the record at {log_offset}")
            if entry.begin >= 0 and entry.seconds != (right := entry_seconds(timestamp, entry.begin)):
                self._wrong(entry, f"{entry.seconds} seconds instead of {right}")
            self._next = next(self._stream, None)
        if lacking := len(wanted - found):
            vouched = timestamp < self._vouched_until_ms and log_offset < self._vouched_to
            if log_offset < self._begins_at and not found:
                self._missing_before += lacking
                return
            if self._missing is not None and self._missing[3] is not vouched:
                self._flush_missing()
            if self._missing is None:
                self._missing = (log_offset, log_offset, lacking, vouched)
            else:
                self._missing = (self._missing[0], log_offset, self._missing[2] + lacking, vouched)
        elif wanted:
            self._flush_missing()

    def _flush_missing(self) -> None:
        if self._missing is not None:
            first, last, count, vouched = self._missing
            text = f"{count} keys of records from log offset {first} to {last} are in no index file"
            self._tell(Finding("index.missing", "index", text, first, count), vouched=vouched)
            self._missing = None

    def _no_record(self, entry: _Entry) -> None:
        if entry.log_offset >= self._layout.log.start:
            text = f"it names log offset {entry.log_offset}, where there is no sound record with a key"
            self._add("no_record", entry, text)

    def _wrong(self, entry: _Entry, text: str) -> None:
        self._add("wrong", entry, text)

    def _add(self, kind: str, entry: _Entry, text: str) -> None:
        assert self._index_layout is not None
        name = self._layout.name(entry.file.path)
        place = self._index_layout.entry_at(entry.number)
        finding = Finding(f"index.{kind}", name, f"{name}, entry {entry.number}: {text}", place, ENTRY.size)
        self._tell(finding, vouched=entry.vouched and entry.log_offset < self._vouched_to)

    def _tell(self, finding: Finding, *, vouched: bool) -> None:
        self.findings.append(finding if vouched else finding.for_recovery())

    # --- each file on its own ---------------------------------------------------------------------------------------

    def _all_entries(self) -> Iterator[_Entry]:
        """Yield entries in the order of files and numbers, and check each file on its own on the way."""
        if self._index_layout is None:
            if self._layout.index:
                text = "the number of slots cannot be determined: index files are empty, or their headers are damaged"
                empty = all(self._header(file).index_count <= 1 for file in self._layout.index)
                finding = Finding("index.header", "index", text, damage=not empty)
                self._tell(finding, vouched=empty or self._vouched_until_ms == NO_LIMIT)
            return
        for file in self._layout.index:
            if file.size == self._index_layout.file_bytes:
                yield from self._entries_of(file, self._index_layout)

    def _header(self, file: StoreFile) -> IndexHeader:
        data = self._open.read(file.path, 0, HEADER_BYTES)
        return read_header(data.ljust(HEADER_BYTES, b"\0"))

    def _entries_of(self, file: StoreFile, layout: IndexLayout) -> Iterator[_Entry]:
        header = self._header(file)
        name = self._layout.name(file.path)
        vouched = header.end_timestamp <= self._vouched_until_ms

        def tell(kind: str, text: str, place: int) -> None:
            self._tell(Finding(f"index.{kind}", name, f"{name}: {text}", place), vouched=vouched)

        count = header.index_count
        if count > layout.entries:
            tell("header", f"index count {count}, but at most {layout.entries} fit", 36)
            count = layout.entries
        newest = array("i", bytes(layout.slots * SLOT_BYTES))
        before, used = -1, 0
        first_offset = last_offset = 0
        for start in range(1, count, _READ_ENTRIES):
            raw = self._open.read(file.path, layout.entry_at(start), min(_READ_ENTRIES, count - start) * ENTRY.size)
            for number, (key_hash, log_offset, seconds, previous) in enumerate(ENTRY.iter_unpack(raw), start):
                self.entries += 1
                if key_hash < 0:
                    tell("wrong", f"entry {number} has the hash {key_hash}", layout.entry_at(number))
                    continue
                if log_offset < before:
                    text = f"entry {number} names log offset {log_offset}, the one before it {before}"
                    tell("order", text, layout.entry_at(number))
                    continue
                slot = key_hash % layout.slots
                expected = newest[slot]
                used += not expected
                if previous != expected:
                    text = f"entry {number} follows entry {previous} in its chain instead of {expected}"
                    tell("chain", text, layout.entry_at(number) + 16)
                newest[slot] = number
                before = last_offset = log_offset
                if number == 1:
                    first_offset = log_offset
                begin = header.begin_timestamp if number > 1 else -1
                yield _Entry(log_offset, key_hash, seconds, begin, number, file, vouched)
        self._compare_slots(file, layout, newest, tell)
        if count > 1:
            for what, said, right, place in (
                ("begin offset", header.begin_offset, first_offset, 16),
                ("end offset", header.end_offset, last_offset, 24),
                ("number of used slots", header.used_slots, used, 32),
            ):
                if said != right:
                    tell("header", f"the {what} is {said}, according to its entries {right}", place)

    def _compare_slots(self, file: StoreFile, layout: IndexLayout, newest: array[int], tell: _Tell) -> None:
        at_once = _READ_ENTRIES
        for first in range(0, layout.slots, at_once):
            raw = self._open.read(file.path, layout.slot_at(first), min(at_once, layout.slots - first) * SLOT_BYTES)
            held = array("i", raw)
            if sys.byteorder == "little":
                held.byteswap()
            expected = newest[first : first + len(held)]
            if held != expected:
                for slot, (got, right) in enumerate(zip(held, expected, strict=True), first):
                    if got != right:
                        tell("chain", f"slot {slot} names entry {got} instead of {right}", layout.slot_at(slot))
