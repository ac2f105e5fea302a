"""The files of users and policies: which may be read, which may be written, and when they have changed.

    own       mode 0600, owned by the user of the broker: written by the broker, with a backup
    mounted   a symbolic link, the file of another user, or one that is not writable, perhaps readable by its group:
              never written; requests that change users or policies are refused

An own file that others can read stops the start, also the read-only one of another user that everybody can read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from gantrymq.errors import ConfigError, FormatError, StoreError
from gantrymq.plugin.config_files import backup_of, save
from gantrymq.plugin.world import Files, FileStat
from gantrymq_access.state import ACLS, USERS, AccessState, acls_text, read_acls, read_users, users_text

log = logging.getLogger(__name__)

_GROUP_READS: Final = 0o040
_OTHERS: Final = 0o077
_OWNER_WRITES: Final = 0o200


class Found(NamedTuple):
    """What was read."""

    state: AccessState
    stamp: object  # equal as long as no file has changed
    mounted: Path | None  # a file that must not be written


class AccessFiles:
    """Both files. The methods access the disk: call them in a thread, one at a time."""

    def __init__(self, files: Files, folder: Path) -> None:
        """Create the object without accessing the disk."""
        self._files = files
        self.folder = folder

    def stamp(self) -> object:
        """Return a value that changes with the files, also when a link of a mounted one moves."""
        return tuple(self._files.stat(self.folder / name) for name in (USERS, ACLS))

    def read(self) -> Found:
        """Read the files; no users and policies without them.

        Raises:
            ConfigError: others may read one, it is malformed, or it cannot be read.
        """
        stamp = self.stamp()
        mounted = [path for name in (USERS, ACLS) if self._check_mode(path := self.folder / name)]
        users = self._read(USERS)
        acls = self._read(ACLS)
        try:
            of_users = read_users(users) if users is not None else {}
        except FormatError as error:
            raise self._malformed(USERS, error) from None
        try:
            of_acls = read_acls(acls) if acls is not None else {}
        except FormatError as error:
            raise self._malformed(ACLS, error) from None
        for name in of_acls.keys() - of_users.keys():
            log.warning("%s has policies of %s, who is no user; they have no effect", self.folder / ACLS, name)
        texts = {
            USERS: users_text(()) if users is None else users.decode(),
            ACLS: acls_text(()) if acls is None else acls.decode(),
        }
        return Found(AccessState.of(of_users, of_acls, texts), stamp, mounted[0] if mounted else None)

    def write(self, texts: Mapping[str, str]) -> object:
        """Replace the files with these texts, by name, and return the new stamp.

        Raises:
            StoreError: a file cannot be written; those before it have changed.
        """
        for name, text in texts.items():
            path = self.folder / name
            try:
                save(self._files, path, text, 0o600)
            except OSError as error:
                raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error
        return self.stamp()

    def _check_mode(self, path: Path) -> bool:
        """Return whether a file is mounted. Raises ConfigError if others may read it."""
        found = self._files.stat(path)
        if found is None:
            return False
        if found.is_dir:
            raise ConfigError(f"{path} is a folder, the file of users and policies was expected")
        mounted = found.is_link or not found.is_own or not found.mode & _OWNER_WRITES
        allowed = _GROUP_READS if mounted else 0
        if found.mode & _OTHERS & ~allowed:
            raise ConfigError(_readable(path, found, mounted))
        return mounted

    def _read(self, name: str) -> bytes | None:
        """Return the content; that of the backup if an interrupted save has left only it."""
        for path in (self.folder / name, backup_of(self.folder / name)):
            try:
                content = self._files.read(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
            if path.name != name:
                log.warning("%s is missing; %s is read instead", self.folder / name, path.name)
            return content
        return None

    def _malformed(self, name: str, problem: FormatError) -> ConfigError:
        path = self.folder / name
        sentence = f"{path}: {problem}; correct the file"
        if self._files.stat(backup_of(path)) is not None:
            sentence += f", or put {backup_of(path).name}, the content before the last change, in its place"
        return ConfigError(sentence)


def _readable(path: Path, found: FileStat, mounted: bool) -> str:
    if mounted:
        return (
            f"{path}: everybody on this machine may read this file with secrets, or others may write it (mode "
            f"{found.mode:04o}); mount it with mode 0440, or 0400"
        )
    return f"{path}: others may read this file with secrets (mode {found.mode:04o}); run: chmod 600 {path}"
