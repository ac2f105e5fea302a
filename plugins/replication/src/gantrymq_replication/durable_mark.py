"""The end of a slave's log that was surely on its disk, kept in a file.

After a stop that was not clean, bytes after it may differ from the master's, because the disk never had them; bytes
before it may not. The file is removed when the broker becomes a master, whose log differs for other reasons.
"""

from __future__ import annotations

from typing import Final

from gantrymq.errors import StoreError
from gantrymq.interfaces import Broker

__all__ = ["DurableMark"]

FILE: Final = "durable"


class DurableMark:
    """The file."""

    def __init__(self, broker: Broker) -> None:
        self._files, self._workers = broker.world.files, broker.world.workers
        self._path = broker.root / "plugins" / "replication" / FILE
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
