"""Locks that keep a second broker out of a store: one on its folder, one on the commit log's folder."""

from __future__ import annotations

from pathlib import Path

from gantrymq.errors import StoreLocked, StoreReadOnly
from gantrymq.plugin.world import Files, Lock, Workers, make_durable_dirs


class StoreLocks:
    """The locks of one store."""

    def __init__(self, files: Files, workers: Workers, root: Path, log_folder: Path, another: str) -> None:
        """Nothing is touched before `take`; *another* is the flag that sets a different folder of the store."""
        self._files = files
        self._workers = workers
        self._root = root
        self._log_folder = log_folder
        self._another = another
        self._locks: list[Lock] = []

    async def take(self) -> None:
        """Create the folders and lock them.

        Raises:
            StoreLocked: another process holds one of them.
            StoreReadOnly: the store's folder is not writable.
        """
        try:
            await self._workers.run(self._make_folders)
            lock = self._files.lock(self._root / "lock", b"lock")
        except OSError as error:
            is_file = isinstance(error, FileExistsError | NotADirectoryError)
            why = "it is a file" if is_file else error.strerror or error
            raise StoreReadOnly(
                f"the store's folder {self._root} cannot be written: {why}; make it a folder that "
                f"this user may write, or choose another with {self._another}"
            ) from error
        if lock is None:
            raise StoreLocked(
                f"the store {self._root} is in use by another broker; stop that one, or give this one a folder of its "
                f"own with {self._another}"
            )
        self._locks = [lock]
        try:  # lock the folder itself: two stores may be configured with it by mistake, and it may hold log files only
            folder = self._files.lock_folder(self._log_folder)
        except OSError:  # the file system does not support folder locks
            return
        if folder is None:
            self.release()
            raise StoreLocked(
                f"the commit log in {self._log_folder} is in use by a broker with another store; give each "
                "broker a folder of its own with storePathCommitLog"
            )
        self._locks.append(folder)

    def release(self) -> None:
        """Release the locks."""
        for lock in self._locks:
            lock.release()
        self._locks = []

    def _make_folders(self) -> None:
        """Runs in a thread. Raises OSError."""
        make_durable_dirs(self._files, self._root)
        make_durable_dirs(self._files, self._log_folder)
        self._files.sync_dir(self._root)  # names that a killed process created
