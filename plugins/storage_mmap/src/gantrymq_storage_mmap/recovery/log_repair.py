"""Making the log sound again where a scan found that it is not: its end, and holes before its end.

Behind the last sound record everything is kept aside and zeroed, and later files that hold anything are moved aside. A
hole, which has sound records behind it, is kept aside too; fillers and blanks take its place, so that every record
stays where it is and both our broker and a Java broker can walk over it. Whatever is written here may be interrupted:
what was kept is durable before a byte of the log changes, and half a filler is a hole again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import attrs

from gantrymq.world import Files
from gantrymq_storage_mmap.log.commit_log import CommitLog
from gantrymq_storage_mmap.log.file import LogFile
from gantrymq_storage_mmap.recovery.quarantine import Quarantine, nonzero_end
from gantrymq_store_files.blank import encode_blank
from gantrymq_store_files.file_names import file_name
from gantrymq_store_files.filler import fillers
from gantrymq_store_files.log_walk import LogDamage

__all__ = ["LogRepair"]

MAX_NOTES = 20  # holes told one by one
CHUNK_BYTES = 1024 * 1024


@attrs.define(eq=False)
class LogRepair:
    """What recovery changes in the log."""

    _files: Files
    _log: CommitLog
    _aside: Quarantine  # takes what is cut
    _note: Callable[[str], None]  # is told each change in a sentence
    cut_bytes: int = attrs.field(default=0, init=False)  # not zero, and kept

    def cut(self, place: int, damage: LogDamage | None) -> None:
        """Keep and zero what stands behind the last sound record, which ends at *place*: *damage*, or later files."""
        if damage is not None:
            kind = "a write that did not finish" if damage.kind == "torn" else "damage"
            self._note(f"the log ends at {place} because of {kind}: {damage.problem}")
        for file in self._log.files:
            if file.start <= place < file.end:
                cut = self._aside.cut(file.file, place - file.start, file.end - file.start, file.start)
                if cut:
                    self._note(f"{cut} bytes behind the log's end at {place} were kept in {self._aside.kept[-1]}")
                self.cut_bytes += cut
        self._clear_behind(place)

    def _clear_behind(self, place: int) -> None:
        """Move the files behind the log's end away, the last one first: wherever this stops, it leaves no gap."""
        behind = [file for file in self._log.files if file.start > place]
        used = {file: nonzero_end(file.file, 0, file.end - file.start) for file in behind}
        first = next((file.start for file in behind if used[file]), None)
        for file in reversed(behind):
            if used[file]:
                self.cut_bytes += used[file]
                moved = self._aside.move(file.path)
                self._note(f"log file {file_name(file.start)} lies behind the log's end and was kept as {moved}")
            elif first is not None and file.start > first:
                self._files.remove(file.path)  # zeros only, and no longer next to the others
                self._files.sync_dir(file.path.parent)

    def fill(self, holes: Sequence[LogDamage]) -> None:
        """Keep what stands in each hole and put fillers and blanks there."""
        for number, hole in enumerate(holes):
            kept_before = len(self._aside.kept)
            for file in self._log.between(hole.log_offset, hole.end):
                self._fill_in(file, hole)
            if number < MAX_NOTES:
                kept = ", ".join(self._aside.kept[kept_before:]) or "nothing but zeros, so nothing was kept"
                self._note(
                    f"{hole.size} bytes of the log at {hole.log_offset} are damaged and given up, the records "
                    f"behind them stay: {hole.problem} (kept: {kept})"
                )
        if len(holes) > MAX_NOTES:
            self._note(f"{len(holes) - MAX_NOTES} more damaged places of the log were given up in the same way")

    def _fill_in(self, file: LogFile, hole: LogDamage) -> None:
        start, end = max(hole.log_offset, file.start), min(hole.end, file.end)
        self.cut_bytes += self._aside.cut(file.file, start - file.start, end - file.start, file.start)
        if end == file.end:
            file.write(start, encode_blank(end - start))
        else:
            note = f"GantryMQ: damaged bytes stood here, kept as {self._aside.name_of(file.path, start)}"
            for place, data in fillers(start, end - start, hole.timestamp, note):
                file.write(place, data)
        file.file.datasync()

    def write_again(self, start: int, end: int) -> None:
        """Write ``[start, end)`` as it was read, and sync it.

        It may be in the page cache and nowhere else, and count as written: a sync before the last stop may have failed.
        So may the names of files.
        """
        for file in self._log.between(start, end):
            low, high = max(start, file.start), min(end, file.end)
            for at in range(low, high, CHUNK_BYTES):
                file.write(at, file.pread(at, min(at + CHUNK_BYTES, high)))
            file.file.datasync()
        for file in self._log.files[-1:]:
            file.file.datasync()  # its length, when it holds nothing yet
            self._files.sync_dir(file.path.parent)
            self._files.sync_dir(file.path.parent.parent)
