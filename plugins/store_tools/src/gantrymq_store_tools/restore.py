"""Makes a store from a backup. Files are copied, never linked, so the backup stays as it is.

Every file is compared with the manifest while it is copied. Until the restore is complete, `commitlog/` has a file that
does not belong there, so that neither kind of broker starts.

Source: apache/rocketmq store/.../MappedFileQueue.java (doLoad).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq.errors import StoreError, StoreLocked
from gantrymq.plugin.formats import COMMIT_LOG, INDEX
from gantrymq.plugin.world import File, Files, is_disk_full, make_durable_dirs
from gantrymq_store_files.checkpoint import decode_checkpoint, encode_checkpoint
from gantrymq_store_files.index import HEADER_BYTES, IndexLayout, read_header
from gantrymq_store_tools.backup_manifest import STORED, Manifest, StoredFile, read_manifest
from gantrymq_store_tools.findings import ProgressListener, no_progress
from gantrymq_store_tools.rebuild_store import rebuild_index
from gantrymq_store_tools.summed_copy import NewFolder, Sum, read_summed

INCOMPLETE: Final = "restore.incomplete"
_NOTE = b"a restore has not been completed: empty the store's folder, and restore again\n"
_LOCK, _LOCK_TEXT = "lock", b"lock"
_DISK_LEFT = 64 * 1024 * 1024  # for folders, and what a broker writes when it starts
_BLOCK_BYTES = 4096

UtcOffset = Callable[[int], int]


@attrs.define
class RestoreReport:
    """The result of a restore."""

    backup: Path
    store: Path
    manifest: Manifest
    restored: bool  # False: only the backup was verified

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        made = {"backup": str(self.backup), "restored_to": str(self.store), "restored": self.restored}
        return {**made, **self.manifest.to_json()}


def restore_store(
    files: Files,
    backup: Path,
    root: Path,
    *,
    dry_run: bool = False,
    index: UtcOffset | None = None,
    progress: ProgressListener = no_progress,
) -> RestoreReport:
    """Verify the backup in the folder *backup*, and make a store of it in the folder *root*.

    Args:
        root: created if it does not exist; otherwise it must be empty.
        dry_run: verify everything, and write nothing.
        index: how far local time is ahead of UTC at a wall time; rebuild the whole index, whose files are named for
            local times. None leaves index files that were not full to the broker.

    Raises:
        StoreError: *backup* is incomplete or damaged, *root* is not empty, or the disk has too little space.
        StoreLocked: a broker has *root* open.
        OSError: the disk failed, or is full.
    """
    manifest = read_manifest(files, backup)
    _refuse_folder(files, root, backup)
    _refuse_full_disk(files, root, manifest)
    progress.begin("verifying" if dry_run else "restoring", manifest.bytes)
    if dry_run:
        for stored in manifest.files:
            _verify(files, backup, stored, None, progress)
    else:
        try:
            _restore(files, backup, root, manifest, None if manifest.clean else index, progress)
        except OSError as error:
            if is_disk_full(error):
                raise StoreError(
                    f"the disk of {root} is full; empty that folder, make space for {manifest.bytes:,} bytes, and "
                    "restore again"
                ) from error
            raise
    progress.end()
    return RestoreReport(backup, root, manifest, restored=not dry_run)


def _refuse_folder(files: Files, root: Path, backup: Path) -> None:
    store, source = root.absolute(), backup.absolute()
    if store.is_relative_to(source) or source.is_relative_to(store):
        raise StoreError(f"{root} and {backup} contain each other; name a folder outside the backup")
    stat = files.stat(root)
    if stat is not None and not stat.is_dir:
        raise StoreError(f"{root} is not a folder")
    names = [name for name in files.list(root) if name != "lost+found"]
    if _LOCK in names:
        lock = files.lock(root / _LOCK, _LOCK_TEXT)
        if lock is None:
            raise StoreLocked(f"a broker has {root} open; stop it, and restore into an empty folder")
        lock.release()
    if INCOMPLETE in files.list(root / COMMIT_LOG):
        raise StoreError(f"{root} has an interrupted restore; empty that folder, and restore again")
    if names:
        raise StoreError(f"{root} is not empty: it has {names[0]}; restore into an empty folder")


def _refuse_full_disk(files: Files, root: Path, manifest: Manifest) -> None:
    needed = sum(file.used + _BLOCK_BYTES for file in manifest.files) + _DISK_LEFT
    usable = files.disk_use(root).usable
    if usable < needed:
        raise StoreError(f"{root} needs about {needed:,} bytes, its disk has {usable:,} bytes left")


def _restore(
    files: Files, backup: Path, root: Path, manifest: Manifest, index: UtcOffset | None, progress: ProgressListener
) -> None:
    new = NewFolder(files, root)
    try:
        lock = files.lock(root / _LOCK, _LOCK_TEXT)
        if lock is None:
            raise StoreLocked(f"a broker has {root} open; stop it, and restore into an empty folder")
        try:
            log = root / COMMIT_LOG
            make_durable_dirs(files, log)
            files.replace(log / INCOMPLETE, _NOTE)
            for stored in manifest.files:
                if index is not None and stored.path.startswith(f"{INDEX}/"):
                    continue
                with new.creating(stored.path) as file:
                    _verify(files, backup, stored, file, progress)
            new.finish()
            if index is not None:
                _rebuild_index(files, backup, root, manifest, index, progress)
            files.remove(log / INCOMPLETE)
            files.sync_dir(log)
        finally:
            lock.release()
    finally:
        new.close()


def _rebuild_index(
    files: Files, backup: Path, root: Path, manifest: Manifest, utc_offset_ms: UtcOffset, progress: ProgressListener
) -> None:
    """Write the index of the whole log, and let the checkpoint cover it: no broker rebuilds it."""
    layout = IndexLayout(manifest.index_slots, manifest.index_entries)
    tags, stored = manifest.index_tags, backup / STORED
    rebuild_index(files, stored, root, utc_offset_ms, index_layout=layout, tag_keys=tags, progress=progress)
    names = files.list(root / INDEX)
    if names:
        header = read_header(files.peek(root / INDEX / names[-1], HEADER_BYTES, 0) or b"")
        checkpoint = decode_checkpoint(files.read(root / "checkpoint"))
        files.replace(root / "checkpoint", encode_checkpoint(checkpoint._replace(index_timestamp=header.end_timestamp)))


def _verify(files: Files, backup: Path, stored: StoredFile, target: File | None, progress: ProgressListener) -> None:
    """Compare one file with the manifest; with *target* also copy it. Raises StoreError."""
    path = backup / STORED / stored.path
    try:
        reading = files.open(path, read_only=True)
    except FileNotFoundError:
        raise StoreError(f"the backup is damaged: {path} is missing") from None
    try:
        found = read_summed(reading, target, advance=progress.advance)
    finally:
        reading.close()
    expected = Sum(stored.size, stored.used, stored.sha256)
    if found != expected:
        same_size = found.size == stored.size
        what = "other content than when it was made" if same_size else f"{found.size} bytes instead of {stored.size}"
        raise StoreError(f"the backup is damaged: {path} has {what}")
