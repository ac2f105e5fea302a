"""The manifest of a backup: which files it has, and what they contain.

    <backup>/backup.json          the manifest; written last, so a folder without it is an incomplete backup
    <backup>/store/...            the files, in the places that they have in a store

The manifest is one JSON object. Its last member, `crc`, is the CRC-32 of all text before it. A file's checksum covers
the bytes up to the last one that is not zero; the rest is zero, and takes no space if the file system supports holes.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path, PurePosixPath
from typing import Any

import attrs

from gantrymq.errors import StoreError
from gantrymq.plugin.world import FileReader, FileTree

MANIFEST = "backup.json"
STORED = "store"  # the folder with the files
_FORMAT = 1
_CRC = ',\n"crc": '


@attrs.frozen
class StoredFile:
    """One file of a backup."""

    path: str  # relative to the store, with slashes
    size: int  # bytes
    used: int  # bytes up to the last one that is not zero
    sha256: str  # of the used bytes, in hexadecimal digits


@attrs.frozen
class Manifest:
    """Facts about a backup."""

    created_ms: int  # when the backup began
    version: str  # of GantryMQ
    store: str  # path of the store
    clean: bool  # the store was not in use and had been shut down cleanly; otherwise its next start recovers
    log_start: int
    log_end: int  # end of the last record
    queues_to: int  # log offset up to which queue entries are included; the next start adds the later ones
    index_slots: int  # layout of its index files
    index_entries: int
    index_tags: bool  # the index has entries for tags
    records: int | None  # in the log; None if they were not checked
    damaged: bool | None  # whether a check found damage; None if nothing was checked
    files: tuple[StoredFile, ...]

    @property
    def bytes(self) -> int:
        """Space that the files take."""
        return sum(file.used for file in self.files)

    def to_json(self) -> dict[str, Any]:
        """Return everything but the files."""
        members = attrs.asdict(self, recurse=False)
        return {**members, "files": len(self.files), "bytes": self.bytes}


def write_manifest(files: FileTree, backup: Path, manifest: Manifest) -> None:
    """Write the manifest of the folder *backup* durably, which completes the backup. Raises OSError."""
    text = json.dumps({"format": _FORMAT, **attrs.asdict(manifest)}, indent=0).removesuffix("\n}")
    files.replace(backup / MANIFEST, f"{text}{_CRC}{zlib.crc32(text.encode())}\n}}\n".encode())


def read_manifest(files: FileReader, backup: Path) -> Manifest:
    """Read the manifest of the folder *backup*.

    Raises:
        StoreError: the folder has no manifest, so it is no complete backup, or the manifest is damaged.
        OSError: the disk cannot be read.
    """
    path = backup / MANIFEST
    try:
        data = files.read(path)
    except (FileNotFoundError, NotADirectoryError):
        if files.list(backup / STORED):
            raise StoreError(f"{backup} has no {MANIFEST}: its backup was interrupted, so it is incomplete") from None
        raise StoreError(f"{backup} is not a backup: it has no {MANIFEST}") from None
    try:
        text, _, crc = data.decode().rpartition(_CRC)
        if zlib.crc32(text.encode()) != int(crc.removesuffix("\n}\n")):
            raise ValueError("its checksum does not match")
        members = json.loads(f"{text}\n}}")
        form = members.pop("format")
        if form != _FORMAT:
            raise StoreError(f"{path} has format {form}; this version reads format {_FORMAT}")
        stored = tuple(StoredFile(**each) for each in members.pop("files"))
        for file in stored:
            parts = PurePosixPath(file.path)
            if parts.is_absolute() or ".." in parts.parts:
                raise ValueError(f"{file.path} is outside the store")
        return Manifest(**members, files=stored)
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise StoreError(f"the backup is damaged: {path}: {problem}") from problem
