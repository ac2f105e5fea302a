"""The default store of the tables: RocketMQ's files below ``config/``, with the reserve for a full disk."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gantrymq.broker.tables.disk_reserve import DiskReserve
from gantrymq.formats.config import backup_of, load, save
from gantrymq.world import FileTree, is_disk_full

log = logging.getLogger(__name__)


class FileStateStore:
    """Files of one folder, each with a backup; `gantrymq.interfaces.StateStore` documents the methods."""

    def __init__(self, files: FileTree, folder: Path, reserve: DiskReserve) -> None:
        """Create the store without accessing the disk."""
        self._files = files
        self._folder = folder
        self._reserve = reserve

    def load(self, name: str) -> Mapping[Any, Any] | None:
        """Read a file, or its backup. Allocate the reserve then, if there is space for it."""
        members = load(self._files, self._folder / name, log.warning)
        self._reserve.keep(0)
        return members

    def save(self, name: str, text: str) -> None:
        """Write a file. On a full disk, the space of the reserve is used."""
        path = self._folder / name
        try:
            save(self._files, path, text)
        except OSError as error:
            if not is_disk_full(error) or not self._reserve.give_up():
                raise
            save(self._files, path, text)
        else:
            self._reserve.keep(2 * len(text))

    def has(self, name: str) -> bool:
        """Return whether the file or its backup exists."""
        path = self._folder / name
        return any(self._files.stat(each) is not None for each in (path, backup_of(path)))

    def place(self, name: str) -> str:
        """Return the path of a file."""
        return str(self._folder / name)
