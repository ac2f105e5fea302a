"""The contents of a store's folder, determined from the files alone, so that a copy on another machine can be checked.

The broker's settings are not used. All files of one kind have one size, so the most frequent size (for the log, also
the distance between file names) is taken as the configured one, and a file of another size is a finding.

    commitlog/<20 digits>                          one size, contiguous
    consumequeue/<topic>/<queue id>/<20 digits>    one size over all queues
    consumequeue_ext/..., batchconsumequeue/...    the same, each with its own size
    index/<17 digits>                              the size determines slots and entries, see `index_files`
    checkpoint, abort, config/*                    as they are

Nothing is opened for writing. RocksDB queues, a DLedger log and a folder without a commit log are rejected.

Source: apache/rocketmq store/.../MappedFileQueue.java (load), ConsumeQueueStore.java (load), index/IndexService.java
(load), RocksDBMessageStore.java.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from gantrymq.errors import StoreLayoutError
from gantrymq.plugin.config_files import RESERVE
from gantrymq.plugin.formats import BATCH_QUEUES, COMMIT_LOG, EXT_QUEUES, INDEX, QUEUES
from gantrymq.plugin.model import Queue
from gantrymq.plugin.world import FileReader
from gantrymq_store_files.file_names import file_start
from gantrymq_store_files.index import is_index_file_name
from gantrymq_store_tools.findings import Finding

__all__ = ["Layout", "Series", "StoreFile", "find_layout", "refuse_non_store"]

_PathText = Callable[[Path], str]
_QUEUE_FOLDERS = (QUEUES, EXT_QUEUES, BATCH_QUEUES)


@attrs.frozen
class StoreFile:
    """One file."""

    path: Path
    start: int  # bytes from the start of the series, as in the file's name; 0 for names that are times
    size: int  # actual size in bytes, which may differ from the configured one


@attrs.frozen
class Series:
    """Files of one kind in one folder, sorted by name; the expected size of each is *file_bytes*."""

    files: tuple[StoreFile, ...] = ()
    file_bytes: int = 0

    @property
    def start(self) -> int:
        """Start of the first file, 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """End of the last file, 0 without files."""
        return self.files[-1].start + self.file_bytes if self.files else 0


@attrs.frozen
class Layout:
    """The files of a store's folder."""

    root: Path
    log: Series
    queues: dict[Queue, Series]
    ext: dict[Queue, Series]
    batch: dict[Queue, Series]
    index: tuple[StoreFile, ...]
    checkpoint: StoreFile | None
    configs: tuple[StoreFile, ...]  # config/* without backups
    abort: bool  # the last shutdown was not clean, or a broker is running
    findings: tuple[Finding, ...]

    def name(self, path: Path) -> str:
        """Return *path* as findings show it: relative to the root if it is below it."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return str(path)

    @property
    def bytes(self) -> int:
        """Total size of the files that a full check reads."""
        series = (self.log, *self.queues.values(), *self.ext.values(), *self.batch.values())
        return sum(file.size for each in series for file in each.files) + sum(file.size for file in self.index)


def find_layout(files: FileReader, root: Path, log_folders: Sequence[Path] = ()) -> Layout:
    """Scan the folder *root*.

    Args:
        log_folders: the folders of the commit log if it is not ``<root>/commitlog``; several are read as one.

    Raises:
        StoreLayoutError: *root* is not a store, or a kind of store that cannot be read; says which and what to do.
    """
    refuse_non_store(files, root, log_folders)
    findings: list[Finding] = []

    def shown(path: Path) -> str:
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    log = _log(files, log_folders or (root / COMMIT_LOG,), findings, shown)
    kinds = []
    for folder in _QUEUE_FOLDERS:
        kinds.append(_queues(files, root / folder, findings, shown))
    index = _index(files, root / INDEX, findings, shown)
    checkpoint = files.stat(root / "checkpoint")
    configs = []
    for name in files.list(root / "config"):
        stat = files.stat(root / "config" / name)
        if name != RESERVE and stat is not None and not stat.is_dir and not name.endswith((".bak", ".tmp", ".broken")):
            configs.append(StoreFile(root / "config" / name, 0, stat.size))
    return Layout(
        root=root,
        log=log,
        queues=kinds[0],
        ext=kinds[1],
        batch=kinds[2],
        index=index,
        checkpoint=StoreFile(root / "checkpoint", 0, checkpoint.size) if checkpoint is not None else None,
        configs=tuple(configs),
        abort=files.stat(root / "abort") is not None,
        findings=tuple(findings),
    )


def refuse_non_store(files: FileReader, root: Path, log_folders: Sequence[Path]) -> None:
    """Reject a folder that is not a store, or a kind of store that cannot be read. Raises StoreLayoutError."""
    stat = files.stat(root)
    if stat is None or not stat.is_dir:
        raise StoreLayoutError(f"{root} is not a folder; give the store's folder, the broker's storePathRootDir")
    for name in (QUEUES, BATCH_QUEUES):
        if _is_rocksdb(files.list(root / name)):
            raise StoreLayoutError(
                f"{root / name} is a RocksDB folder (storeType=defaultRocksDB); only stores whose queues are files can "
                "be read. To read its messages anyway, copy commitlog/ into an empty folder and give that folder"
            )
    for folder in log_folders or (root / COMMIT_LOG,):
        names = files.list(folder)
        if not names:
            dledger = next((name for name in files.list(root) if name.startswith("dledger-")), None)
            if dledger is not None:
                raise StoreLayoutError(f"{root / dledger} is a DLedger log, whose entry format is not supported")
            inside = files.list(root / "store" / COMMIT_LOG)
            hint = f"; did you mean {root / 'store'}?" if inside else ""
            raise StoreLayoutError(f"{folder} is missing or empty, so {root} is not a store that can be read{hint}")
        if _is_rocksdb(names):
            raise StoreLayoutError(f"{folder} is a RocksDB folder, not a commit log of RocketMQ's file store")
        if all(file_start(name) is None for name in names):
            raise StoreLayoutError(
                f"{folder} holds {names[0]!r} and no file named for a log offset (20 digits): it is not a "
                "commit log of RocketMQ's file store"
            )


def _is_rocksdb(names: Iterable[str]) -> bool:
    found = set(names)
    return "CURRENT" in found and any(name.startswith("MANIFEST-") or name.endswith(".sst") for name in found)


def _log(files: FileReader, folders: Sequence[Path], findings: list[Finding], shown: _PathText) -> Series:
    found: list[StoreFile] = []
    for folder in folders:
        for name in files.list(folder):
            stat = files.stat(folder / name)
            if stat is None or stat.is_dir:
                continue
            start = file_start(name)
            if start is None:
                text = (
                    f"{shown(folder / name)} does not belong in a commit log folder; Java brokers do not start with it"
                )
                findings.append(Finding("layout.stray", shown(folder / name), text))
            else:
                found.append(StoreFile(folder / name, start, stat.size))
    found.sort(key=lambda file: file.start)
    if found and found[-1].size == 0 and len(found) > 1:
        text = "the last file of the log is empty after an interrupted allocation; brokers remove it"
        findings.append(Finding("layout.empty", shown(found[-1].path), text, damage=False))
        found.pop()
    size = _usual_size(found, pairwise_steps=True)
    if len(found) == 1 and size and found[0].start % size:  # truncated: the full size divides its start
        size = next(found[0].start // n for n in range(found[0].start // size, 0, -1) if found[0].start % n == 0)
    _check_sizes(found, size, "layout.log_size", "mappedFileSizeCommitLog", findings, shown)
    return Series(tuple(found), size)


def _queues(files: FileReader, folder: Path, findings: list[Finding], shown: _PathText) -> dict[Queue, Series]:
    found: dict[Queue, list[StoreFile]] = {}
    for topic in files.list(folder):
        for name in files.list(folder / topic):
            if not (name.isascii() and name.isdecimal()):
                text = f"{shown(folder / topic / name)} is not a queue folder: its name is not a number"
                findings.append(Finding("layout.stray", shown(folder / topic / name), text))
                continue
            for file in files.list(folder / topic / name):
                path = folder / topic / name / file
                stat, start = files.stat(path), file_start(file)
                if stat is None or stat.is_dir:
                    continue
                if start is None:
                    findings.append(Finding("layout.stray", shown(path), f"{shown(path)} is not a queue file"))
                elif stat.size or start == 0:  # an empty file after others is an interrupted allocation
                    found.setdefault(Queue(topic, int(name)), []).append(StoreFile(path, start, stat.size))
    size = _usual_size([file for each in found.values() for file in each])
    for each in found.values():
        _check_sizes(each, size, "layout.queue_size", "the size of the other files", findings, shown)
    return {queue: Series(tuple(each), size) for queue, each in found.items()}


def _index(files: FileReader, folder: Path, findings: list[Finding], shown: _PathText) -> tuple[StoreFile, ...]:
    found = []
    for name in files.list(folder):
        stat = files.stat(folder / name)
        if stat is None or stat.is_dir:
            continue
        if is_index_file_name(name):
            found.append(StoreFile(folder / name, 0, stat.size))
        else:
            text = f"{shown(folder / name)} is not an index file: their names are times of 17 digits"
            findings.append(Finding("layout.stray", shown(folder / name), text))
    size = _usual_size(found)
    _check_sizes(found, size, "layout.index_size", "the size of the other files", findings, shown)
    return tuple(found)


def _usual_size(found: Sequence[StoreFile], *, pairwise_steps: bool = False) -> int:
    """Return the most frequent size; among equally frequent ones, the one that file names confirm, else the largest."""
    if not found:
        return 0
    votes = Counter(file.size for file in found if file.size)
    if pairwise_steps:
        votes.update(after.start - before.start for before, after in pairwise(found) if after.start > before.start)
    most = max(votes.values(), default=0)
    return max((size for size, count in votes.items() if count == most), default=0)


def _check_sizes(
    found: Sequence[StoreFile], size: int, kind: str, key: str, findings: list[Finding], shown: _PathText
) -> None:
    for file in found:
        if file.size != size:
            text = f"{shown(file.path)} has {file.size} bytes instead of {size} ({key}); brokers do not start with it"
            findings.append(Finding(kind, shown(file.path), text, min(file.size, size), abs(size - file.size)))
        elif size and file.start % size:
            text = f"{shown(file.path)}: files of {size} bytes must start at multiples of their size"
            findings.append(Finding(kind, shown(file.path), text))
