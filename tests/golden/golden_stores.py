"""The golden stores: the list of scenarios, and access to each of them."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from gantrymq.formats.record import RecordView
from gantrymq.model.queue import Queue
from gantrymq_store_files.check import CheckResult, LogContent, check_bytes

ARCHIVE = Path(__file__).parent / "stores.tar.xz"

SCENARIOS = (
    "batch",
    "binary",
    "broadcast",
    "cleaned/cleaned",
    "cleaned/rebuilt",
    "clientops",
    "crash/killed",
    "crash/recovered",
    "crash/torn",
    "crash/torn-recovered",
    "delay",
    "ha/master",
    "ha/slave",
    "innerbatch",
    "ipv6",
    "lmq",
    "mqadmin",
    "normal",
    "orderly",
    "pop",
    "propcrc",
    "retry",
    "sql",
    "timer",
    "transaction",
    "v497",
    "v550",
)

# Stores whose queues have more than one entry of 20 bytes per record; test_queue_extras compares them.
EXTRAS = {
    "innerbatch": "batchconsumequeue/: an entry of 46 bytes for each record, which may hold several messages",
    "sql": "consumequeue_ext/: queue entries hold the address of a unit there in place of the tags code",
    "lmq": "consumequeue/%LMQ%...: one record has entries in several queues",
}

SIZE_KEYS = {
    "mappedFileSizeCommitLog": 1073741824,
    "mappedFileSizeConsumeQueue": 6000000,
    "mapperFileSizeBatchConsumeQueue": 13800000,
    "mappedFileSizeConsumeQueueExt": 50331648,
}


def unpack(folder: Path) -> None:
    """Write every file of the archive below *folder*."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")


class Place(NamedTuple):
    """One record, or blank, of a log."""

    file: str
    position: int  # bytes from the start of the file
    check: CheckResult


class Scenario:
    """A store written by a Java broker, and Java's reading of it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.store = folder / "store"

    @cached_property
    def conf(self) -> dict[str, str]:
        """The settings the broker ran with."""
        lines = (self.folder / "broker.conf").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def size(self, key: str) -> int:
        """A file size the broker ran with."""
        return int(self.conf.get(key, SIZE_KEYS[key]))

    @cached_property
    def records(self) -> list[dict[str, Any]]:
        """Every record and blank of the log, decoded by Java."""
        return _lines(self.folder / "records.jsonl")

    @cached_property
    def messages(self) -> list[dict[str, Any]]:
        """The messages that the Java client sent and received; empty if no client ran."""
        path = self.folder / "messages.jsonl"
        return _lines(path) if path.exists() else []

    def received(self, via: str) -> list[dict[str, Any]]:
        """The messages that the Java client received in one way, in the order of the queues."""
        found = [line for line in self.messages if line["kind"] == "received" and line["via"] == via]
        return sorted(found, key=lambda line: (line["topic"], line["queueId"], line["queueOffset"]))

    def log_files(self) -> list[Path]:
        """Files of the commit log, oldest first."""
        return sorted((self.store / "commitlog").iterdir())

    def log(self) -> Iterator[Place]:
        """Iterate over the log until its end, or until bytes that are not a record."""
        for path in self.log_files():
            data = memoryview(path.read_bytes())
            position = 0
            while True:
                check = check_bytes(data, position, int(path.name) + position)
                if check.found is LogContent.END:
                    return
                yield Place(path.name, position, check)
                if check.found is LogContent.BLANK:
                    break
                if check.record is None:
                    return
                position += check.size

    def log_records(self) -> list[RecordView]:
        """The sound records of the log."""
        return [place.check.record for place in self.log() if place.check.record is not None]

    def queue_files(self, part: str = "consumequeue") -> dict[Queue, list[Path]]:
        """Files of every queue below *part* of the store, oldest first."""
        found: dict[Queue, list[Path]] = {}
        for path in sorted((self.store / part).glob("*/*/*")):
            found.setdefault(Queue(path.parent.parent.name, int(path.parent.name)), []).append(path)
        return found


def _lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
