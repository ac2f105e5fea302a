"""Why a copy differs from its master's log: damage, or records of another master; and where cut bytes are kept.

A power cut leaves zeros or older bytes in pages that were not synced: those bytes are no record that a broker wrote,
and were never acknowledged with SYNC_FLUSH. A whole record that differs was written by another master, and may have
been acknowledged: it is never cut. A blank, which closes a log file, is either: another master's next record did not
fit, or recovery found damage up to the file's end. The records after it decide.

    <store>/recovered/<time in ms>/commitlog/<log offset of the first byte, 20 digits>     bytes that were cut

The end of a slave's log that was surely on its disk is kept in a file (`DurableMark`). After an unclean stop, bytes
after it may differ from the master's, because the disk never had them; bytes before it may not. The file is removed
when the broker becomes a master, whose log differs for other reasons.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.errors import FormatError, StoreError
from gantrymq.plugin.formats import MAGIC_V1, body_crc, read_record
from gantrymq.plugin.interfaces import BrokerEnvironment
from gantrymq_store_files.blank import MAGIC_BLANK
from gantrymq_store_files.filler import FILLER_TOPIC

LONGEST_BYTES: Final = 4 * 1024 * 1024 + 128 * 1024  # a longest record, with its properties
_PIECE_BYTES: Final = 4 * 1024 * 1024  # of one kept file
_PAGE_BYTES: Final = 4096
_MAGIC: Final = MAGIC_V1.to_bytes(4, "big")[:3]  # how the magics of both versions begin, 4 bytes after a record's start
BLANK_MAGIC: Final = MAGIC_BLANK.to_bytes(4, "big")
_LEAST_ZEROS: Final = 16
_FILE: Final = "durable"


def is_damaged(start: int, data: bytes, place: int) -> bool:
    """Return whether the record at log offset *place* is none that a broker wrote.

    Args:
        start: log offset of *data*.
        data: bytes of the log, from a longest record before *place* to one after it, as far as there are some.
        place: of the first byte that differs from another log.
    """
    found, size = _last_record(start, data, place)
    if found < 0:
        return True
    if place < start + found + size:
        return not _is_whole(data[found : found + size], start + found) or _is_lost(data, start, place)
    return not blank_end(start, data, place)


def blank_end(start: int, data: bytes, place: int) -> int:
    """Return the end of the blank in which the log offset *place* is; 0 if it is in none. Arguments as `is_damaged`."""
    found, size = _last_record(start, data, place)
    head = data[found + size : found + size + 8]
    if found < 0 or place < start + found + size or head[4:] != BLANK_MAGIC:
        return 0
    end = start + found + size + int.from_bytes(head[:4], "big")
    return end if place < end else 0


def _last_record(start: int, data: bytes, place: int) -> tuple[int, int]:
    """Return the position in *data*, and the size, of the last record that begins at or before *place*; -1 if none."""
    until = place - start + 4 + len(_MAGIC)
    while (found := data.rfind(_MAGIC, 0, until) - 4) >= 0:
        if int.from_bytes(data[found + 28 : found + 36], "big") == start + found:
            return found, int.from_bytes(data[found : found + 4], "big")
        until = found + 4 + len(_MAGIC) - 1
    return -1, 0


def _is_whole(record: bytes, log_offset: int) -> bool:
    try:
        view = read_record(record)
    except FormatError:
        return False
    sound = view.log_offset == log_offset and body_crc(view.body) == view.body_crc & 0x7FFFFFFF
    return sound and view.topic != FILLER_TOPIC


def _is_lost(data: bytes, start: int, place: int) -> bool:
    """Return whether the rest of the page is zeros: the checksum does not cover properties."""
    rest = data[place - start : place - start + _PAGE_BYTES - place % _PAGE_BYTES]
    return len(rest) >= _LEAST_ZEROS and not any(rest)


async def keep(broker: BrokerEnvironment, read: Callable[[int, int], Awaitable[bytes]], start: int, end: int) -> str:
    """Write the log from *start* to *end*, which *read* returns, below ``recovered``. Return that folder.

    Raises:
        StoreError: the disk failed.
    """
    files, workers = broker.world.files, broker.world.workers
    folder = broker.root / "recovered" / str(broker.world.clock.now_ms()) / "commitlog"
    try:
        await workers.run(files.make_dirs, folder)
        for place in range(start, end, _PIECE_BYTES):
            data = await read(place, min(_PIECE_BYTES, end - place))
            await workers.run(files.replace, folder / f"{place:020d}", data)
    except OSError as error:
        raise StoreError(f"what differs from the master's log cannot be kept in {folder}: {error}") from error
    return str(folder)


class DurableMark:
    """The file."""

    def __init__(self, broker: BrokerEnvironment) -> None:
        self._files, self._workers = broker.world.files, broker.world.workers
        self._path = broker.root / "plugins" / "replication" / _FILE
        self._broker = broker

    def read(self) -> int | None:
        """Return the log offset, the start of a record; None if it is not known."""
        if self._files.stat(self._path) is None:
            return None
        text = self._files.read(self._path)
        return int(text) if text.isdigit() else None

    async def begin(self, log_offset: int) -> None:
        """Write it unless there is one; *log_offset*: the end of a log that was opened, so that it is on the disk.

        Raises:
            StoreError: the disk failed.
        """
        if self.read() is None:
            try:
                await self.write(log_offset)
            except OSError as error:
                raise StoreError(f"{self._path} cannot be written: {error}") from error

    async def write(self, log_offset: int) -> None:
        """Replace it, durably."""
        self._broker.state_folder("replication")
        await self._workers.run(self._files.replace, self._path, b"%d" % log_offset)

    def forget(self) -> None:
        """Remove it."""
        if self._files.stat(self._path) is not None:
            self._files.remove(self._path)
