"""Disks with which a run begins: an empty one, and golden stores written by Java brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from golden_stores import Scenario, unpack

from gantrymq_testing.simulated import SimulatedFiles

ROOT = Path("/store")
NEW = "new"
GOLDEN = (
    *("batch", "broadcast", "cleaned/cleaned", "clientops", "crash/killed", "crash/torn", "delay", "mqadmin", "normal"),
    *("orderly", "pop", "retry", "timer", "transaction", "v497", "v550"),
)
SIZES = {"mappedFileSizeCommitLog": 16 * 1024, "mappedFileSizeConsumeQueue": 400}
INDEX_SIZES = {"maxHashSlotNum": 20, "maxIndexNum": 60}  # several index files a day, in a store that has an index


@attrs.frozen
class Start:
    """One disk and the file sizes that go with it."""

    name: str
    sizes: dict[str, Any]
    content: dict[Path, bytes]  # below ROOT

    def disk(self, now_ms: Callable[[], int]) -> SimulatedFiles:
        """A fresh copy; everything on it is durable."""
        files = SimulatedFiles(now_ms)
        for path, data in self.content.items():
            files.make_dirs(path.parent)
            file = files.open(path, create=True)
            file.pwrite(data, 0)
            file.close()
        return files


class Starts:
    """Starts by name, read once."""

    def __init__(self, folder: Path) -> None:
        """Unpack the golden stores below *folder*."""
        unpack(folder)
        self._folder = folder
        self._made: dict[str, Start] = {}

    def get(self, name: str) -> Start:
        """NEW, or one of GOLDEN."""
        if name not in self._made:
            self._made[name] = Start(NEW, SIZES | INDEX_SIZES, {}) if name == NEW else self._golden(name)
        return self._made[name]

    def turn(self, number: int) -> Start:
        """Every second one is a golden store, each of them in its turn."""
        return self.get(GOLDEN[number // 2 % len(GOLDEN)] if number % 2 else NEW)

    def _golden(self, name: str) -> Start:
        scenario = Scenario(name, self._folder / name)
        content = {
            ROOT / path.relative_to(scenario.store): path.read_bytes()
            for path in sorted(scenario.store.rglob("*"))
            if path.is_file()
        }
        sizes = {key: scenario.size(key) for key in SIZES}
        index = {key: int(scenario.conf[key]) for key in INDEX_SIZES if key in scenario.conf}
        return Start(name, sizes | index, content)


def copy_of(files: SimulatedFiles, folder: Path = ROOT) -> dict[Path, bytes]:
    """Every file below *folder*."""
    found: dict[Path, bytes] = {}
    for name in files.list(folder):
        path = folder / name
        stat = files.stat(path)
        assert stat is not None
        if stat.is_dir:
            found |= copy_of(files, path)
        else:
            found[path] = files.read(path)
    return found
