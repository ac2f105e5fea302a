"""Makes a copy of a damaged log readable from end to end without moving any sound byte.

    position of the damage                         replacement in the copy
    after the last record                          zeros: the log ends there
    up to the end of a file that others follow     a blank: readers continue in the next file
    a whole file is missing                        a file that is one blank
    between two sound positions of a file          a filler of that length (`gantrymq_store_files.filler`)

The replaced bytes are kept below ``recovered`` in the copy, in files named for their log offset.

Source: apache/rocketmq store/.../CommitLog.java (recoverNormally), DefaultMessageStore.java
(CommitLogDispatcherBuildConsumeQueue, CommitLogDispatcherBuildIndex).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from gantrymq.plugin.world import Files
from gantrymq_store_files.blank import BLANK_BYTES, encode_blank
from gantrymq_store_files.file_names import file_name, pieces
from gantrymq_store_files.filler import MIN_FILLER_BYTES, fillers
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.log_reader import LogReader
from gantrymq_store_tools.target_files import TargetFiles, copy_file

_CHUNK_BYTES = 1024 * 1024


def copy_log(files: Files, layout: Layout, target: Path) -> None:
    """Copy the log's files into the folder *target*, each at its full length. Raises OSError."""
    files.make_dirs(target)
    for file in layout.log.files:
        copy_file(files, file.path, target / file_name(file.start), layout.log.file_bytes)


def repair_log(
    files: Files,
    reader: LogReader,
    damages: Sequence[LogDamage],
    records_end: int,
    target: Path,
    aside: Path,
) -> list[str]:
    """Overwrite every damaged range in the copied log.

    Args:
        reader: of the original.
        damages: of the whole log, in log order.
        records_end: log offset of the end of the last sound record.
        target: the folder of the copied log.
        aside: the folder that receives the replaced bytes.

    Returns:
        A sentence for each damaged range, what was done.
    """
    size = reader.log.file_bytes
    copies = TargetFiles(files, size)
    copies.adopt(target / file_name(file.start) for file in reader.log.files)
    done = []
    for damage in chain.from_iterable(_by_file(each, size) for each in damages):
        start, end = damage.log_offset, damage.end
        kept = _keep(files, reader, start, end, aside)
        note = f"; the bytes are kept in {aside.name}/{file_name(start)}" if kept else ""
        if damage.kind == "missing":
            for at in range(start, end, size):
                copies.write(target, at, encode_blank(size))
            done.append(f"log offset {start}: {damage.size // size} missing files were replaced by blanks")
            continue
        if start >= records_end:
            _fill(copies, target, start, end)
            done.append(f"log offset {start}: the log now ends here{note}")
            continue
        file_end = start - start % size + size
        last = end >= file_end or not _sound_after(reader, end, file_end)
        _fill(copies, target, start, min(end, file_end))
        if last and file_end - start >= BLANK_BYTES:
            copies.write(target, start, encode_blank(file_end - start))
            done.append(f"log offset {start}: a blank up to the end of its file{note}")
        elif last or damage.size < MIN_FILLER_BYTES:
            done.append(f"log offset {start}: {damage.size} bytes are too few for a filler; left as zeros{note}")
        else:
            text = f"kept as {aside.name}/{file_name(start)}"
            for place, record in fillers(start, damage.size, max(damage.timestamp, 1), text):
                copies.write(target, place, record)
            done.append(f"log offset {start}: a filler of {damage.size} bytes{note}")
    copies.close()
    return done


def _by_file(damage: LogDamage, file_bytes: int) -> Iterator[LogDamage]:
    """Split a damage by file; missing files stay one damage."""
    if damage.kind == "missing":
        yield damage
        return
    for start, at, length in pieces(damage.log_offset, damage.size, file_bytes):
        yield damage._replace(log_offset=start + at, size=length)


def _sound_after(reader: LogReader, place: int, file_end: int) -> bool:
    """Return whether the walk continued inside the file: damage ends at a sound position, or before zeros."""
    if file_end - place < BLANK_BYTES:
        return False
    file = reader.file_at(place)
    assert file is not None
    return any(reader.read(place, BLANK_BYTES))


def _fill(copies: TargetFiles, target: Path, start: int, end: int) -> None:
    for at in range(start, end, _CHUNK_BYTES):
        copies.write(target, at, bytes(min(_CHUNK_BYTES, end - at)))


def _keep(files: Files, reader: LogReader, start: int, end: int, aside: Path) -> bool:
    """Write bytes ``[start, end)`` of the original to *aside* unless they are zeros or missing."""
    copy = None
    try:
        for at in range(start, end, _CHUNK_BYTES):
            file = reader.file_at(at)
            if file is None:
                return copy is not None
            length = min(_CHUNK_BYTES, end - at, file.start + reader.log.file_bytes - at)
            data = reader.read(at, length)
            if copy is None and any(data):
                files.make_dirs(aside)
                copy = files.open(aside / file_name(start), create=True)
            if copy is not None:
                copy.pwrite(data, at - start)
        if copy is not None:
            copy.datasync()
    finally:
        if copy is not None:
            copy.close()
    return copy is not None
