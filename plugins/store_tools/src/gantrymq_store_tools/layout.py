"""What a store's folder holds, found from the files alone, so that a copy from another machine can be examined.

Settings are not asked: a broker's files of one kind all have one size, so the size that most of them have (for the log,
the distance of their names where there are several) is the configured one, and a file of another size is a finding.

    commitlog/<20 digits>                          one size, one behind the other
    consumequeue/<topic>/<queue id>/<20 digits>    one size over all queues
    consumequeue_ext/..., batchconsumequeue/...    the same, sizes of their own
    index/<17 digits>                              the size tells slots and entries, see `gantrymq_store_files.index`
    checkpoint, abort, config/*                    as they are

Nothing here is opened for writing. A RocksDB folder where queues belong, a DLedger log and a folder without a commit
log are refused.

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
from gantrymq.formats.config import RESERVE
from gantrymq.formats.store_folders import BATCH_QUEUES, COMMIT_LOG, EXT_QUEUES, INDEX, QUEUES
from gantrymq.model.queue import Queue
from gantrymq.world.files import Files
from gantrymq_store_files.file_names import file_start
from gantrymq_store_files.index import is_index_file_name
from gantrymq_store_tools.findings import Finding

__all__ = ["Layout", "Series", "StoreFile", "find_layout"]

_PathText = Callable[[Path], str]
QUEUE_FOLDERS = (QUEUES, EXT_QUEUES, BATCH_QUEUES)


@attrs.frozen
class StoreFile:
    """One file."""

    path: Path
    start: int  # what its name says, bytes from the start of the whole; 0 where names are times
    size: int  # bytes it has, not what it should have


@attrs.frozen
class Series:
    """Files of one kind in one folder, by name; each should have *file_bytes*."""

    files: tuple[StoreFile, ...] = ()
    file_bytes: int = 0

    @property
    def start(self) -> int:
        """Where the first file begins, 0 without files."""
        return self.files[0].start if self.files else 0

    @property
    def end(self) -> int:
        """Where the last file ends, 0 without files."""
        return self.files[-1].start + self.file_bytes if self.files else 0


@attrs.frozen
class Layout:
    """A store's folder."""

    root: Path
    log: Series
    queues: dict[Queue, Series]
    ext: dict[Queue, Series]
    batch: dict[Queue, Series]
    index: tuple[StoreFile, ...]
    checkpoint: StoreFile | None
    configs: tuple[StoreFile, ...]  # config/*, backups left out
    abort: bool  # the last stop was no clean one, or a broker is running
    findings: tuple[Finding, ...]

    def name(self, path: Path) -> str:
        """*path* as findings show it."""
        try:
            return path.relative_to(self.root).as_posix()
        except ValueError:
            return str(path)

    @property
    def bytes(self) -> int:
        """Length of everything that a full examination reads."""
        series = (self.log, *self.queues.values(), *self.ext.values(), *self.batch.values())
        return sum(file.size for each in series for file in each.files) + sum(file.size for file in self.index)


def find_layout(files: Files, root: Path, log_folders: Sequence[Path] = ()) -> Layout:
    """Look through the folder *root*.

    Args:
        log_folders: where the commit log lies when it is not ``<root>/commitlog``; several are read as one.

    Raises:
        StoreLayoutError: no store, or one of a kind that is not read here; says which and what can be done.
    """
    _refuse_non_store(files, root, log_folders)
    findings: list[Finding] = []

    def shown(path: Path) -> str:
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    log = _log(files, log_folders or (root / COMMIT_LOG,), findings, shown)
    kinds = []
    for folder in QUEUE_FOLDERS:
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


def _refuse_non_store(files: Files, root: Path, log_folders: Sequence[Path]) -> None:
    stat = files.stat(root)
    if stat is None or not stat.is_dir:
        raise StoreLayoutError(f"{root} is no folder; give the store's folder, the broker's storePathRootDir")
    for name in (QUEUES, BATCH_QUEUES):
        if _is_rocksdb(files.list(root / name)):
            raise StoreLayoutError(
                f"{root / name} is a RocksDB folder (storeType=defaultRocksDB); only stores whose queues are files can "
                "be read. To read its messages nevertheless, copy commitlog/ into an empty folder and give that one"
            )
    for folder in log_folders or (root / COMMIT_LOG,):
        names = files.list(folder)
        if not names:
            dledger = next((name for name in files.list(root) if name.startswith("dledger-")), None)
            if dledger is not None:
                raise StoreLayoutError(
                    f"{root / dledger} is a DLedger log, whose entries have a form of their own; it cannot be read"
                )
            inside = files.list(root / "store" / COMMIT_LOG)
            hint = f"; did you mean {root / 'store'}?" if inside else ""
            raise StoreLayoutError(f"{folder} is missing or empty, so {root} is no store that can be read{hint}")
        if _is_rocksdb(names):
            raise StoreLayoutError(f"{folder} is a RocksDB folder, no commit log of RocketMQ's file store")
        if all(file_start(name) is None for name in names):
            raise StoreLayoutError(
                f"{folder} holds {names[0]!r} and no file whose name is a place in the log (20 digits): this is no "
                "commit log of RocketMQ's file store"
            )


def _is_rocksdb(names: Iterable[str]) -> bool:
    found = set(names)
    return "CURRENT" in found and any(name.startswith("MANIFEST-") or name.endswith(".sst") for name in found)


def _log(files: Files, folders: Sequence[Path], findings: list[Finding], shown: _PathText) -> Series:
    found: list[StoreFile] = []
    for folder in folders:
        for name in files.list(folder):
            stat = files.stat(folder / name)
            if stat is None or stat.is_dir:
                continue
            start = file_start(name)
            if start is None:
                text = f"{shown(folder / name)} does not belong into a commit log folder; a Java broker does not start"
                findings.append(Finding("layout.stray", shown(folder / name), text))
            else:
                found.append(StoreFile(folder / name, start, stat.size))
    found.sort(key=lambda file: file.start)
    if found and found[-1].size == 0 and len(found) > 1:
        text = "the last file of the log is empty, as an interrupted allocation leaves it; brokers remove it"
        findings.append(Finding("layout.empty", shown(found[-1].path), text, damage=False))
        found.pop()
    size = _usual_size(found, pairwise_steps=True)
    if len(found) == 1 and size and found[0].start % size:  # it was cut: the whole size divides its place in the log
        size = next(found[0].start // n for n in range(found[0].start // size, 0, -1) if found[0].start % n == 0)
    _check_sizes(found, size, "layout.log_size", "mappedFileSizeCommitLog", findings, shown)
    return Series(tuple(found), size)


def _queues(files: Files, folder: Path, findings: list[Finding], shown: _PathText) -> dict[Queue, Series]:
    found: dict[Queue, list[StoreFile]] = {}
    for topic in files.list(folder):
        for name in files.list(folder / topic):
            if not (name.isascii() and name.isdecimal()):
                text = f"{shown(folder / topic / name)} is no queue's folder: its name is not a number"
                findings.append(Finding("layout.stray", shown(folder / topic / name), text))
                continue
            for file in files.list(folder / topic / name):
                path = folder / topic / name / file
                stat, start = files.stat(path), file_start(file)
                if stat is None or stat.is_dir:
                    continue
                if start is None:
                    findings.append(Finding("layout.stray", shown(path), f"{shown(path)} is no file of a queue"))
                elif stat.size or start == 0:  # an empty one behind others is an interrupted allocation
                    found.setdefault(Queue(topic, int(name)), []).append(StoreFile(path, start, stat.size))
    size = _usual_size([file for each in found.values() for file in each])
    for each in found.values():
        _check_sizes(each, size, "layout.queue_size", "the size of the other files", findings, shown)
    return {queue: Series(tuple(each), size) for queue, each in found.items()}


def _index(files: Files, folder: Path, findings: list[Finding], shown: _PathText) -> tuple[StoreFile, ...]:
    found = []
    for name in files.list(folder):
        stat = files.stat(folder / name)
        if stat is None or stat.is_dir:
            continue
        if is_index_file_name(name):
            found.append(StoreFile(folder / name, 0, stat.size))
        else:
            text = f"{shown(folder / name)} is no index file: their names are times of 17 digits"
            findings.append(Finding("layout.stray", shown(folder / name), text))
    size = _usual_size(found)
    _check_sizes(found, size, "layout.index_size", "the size of the other files", findings, shown)
    return tuple(found)


def _usual_size(found: Sequence[StoreFile], *, pairwise_steps: bool = False) -> int:
    """The size most files have; of several that are as frequent, the one that names confirm, else the largest."""
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
            text = f"{shown(file.path)} has {file.size} bytes where {size} ({key}) belong; brokers do not start on it"
            findings.append(Finding(kind, shown(file.path), text, min(file.size, size), abs(size - file.size)))
        elif size and file.start % size:
            text = f"{shown(file.path)}: files of {size} bytes start at multiples of that"
            findings.append(Finding(kind, shown(file.path), text))
