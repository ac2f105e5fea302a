"""The store contract, with ordinary sizes, with tiny files, and with all reads cold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from gantrymq.config import Setting, Settings
from gantrymq.interfaces import MessageStore, StoreContext
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_storage_mmap.queues import pending_entries
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore
from gantrymq_testing import DurableRawLogContract, RawLogContract, StoreContract
from gantrymq_testing.simulated import SimulatedFiles

BROKER_KEYS = (Setting("maxMessageSize", "number", 4 * 1024**2, "declared by the broker"),)


class MmapStoreCases:
    sizes: dict[str, Any] = {"mappedFileSizeCommitLog": 4 * 1024**2}

    def make_store(self, world: World, root: Path, **settings: Any) -> MessageStore:
        return MmapStore(StoreContext(world, root, Settings((*SCHEMA, *BROKER_KEYS), {**self.sizes, **settings})))


class TestContract(MmapStoreCases, StoreContract):
    pass


class TestContractWithTinyFiles(TestContract):
    """Files roll all the time, three queue files are open at most."""

    sizes = {"mappedFileSizeCommitLog": 36864, "mappedFileSizeConsumeQueue": 2000, "maxOpenQueueFiles": 3}


class TestContractWithShortTails(TestContract):
    """Queue entries go to their files a few at a time, so that most reads span files and memory."""

    sizes = {"mappedFileSizeCommitLog": 65536, "mappedFileSizeConsumeQueue": 2000, "maxOpenQueueFiles": 3}

    @pytest.fixture(autouse=True)
    def short_tails(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pending_entries, "MOST_WAITING_BYTES", 60)


class TestContractReadCold(TestContract):
    """Nothing is hot: every get uses a thread."""

    sizes = {"mappedFileSizeCommitLog": 65536, "hotReadWindow": 0}


class TestContractInMemory(TestContract):
    """On the simulated disk, which knows holes in files and a full disk."""

    def make_world(self) -> World:
        world = real_world()
        return attrs.evolve(world, files=SimulatedFiles(world.clock.now_ms))


SMALL_FILES = {
    "mappedFileSizeCommitLog": 4096,
    "mappedFileSizeConsumeQueue": 100,
    "maxHashSlotNum": 50,
    "maxIndexNum": 20,
}


class TestRawLog(MmapStoreCases, DurableRawLogContract):
    """Log files of a few records, queue files of five entries, index files of twenty keys."""

    sizes = SMALL_FILES


class TestRawLogReadCold(MmapStoreCases, RawLogContract):
    """Nothing is hot: every read of the log uses a thread."""

    sizes = {**SMALL_FILES, "hotReadWindow": 0}
