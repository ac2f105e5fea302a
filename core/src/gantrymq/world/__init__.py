"""Interfaces to the operating system: clock, network, files and worker threads.

All other code uses them through a `World` only. A seeded simulation in memory on a virtual clock is therefore
reproducible byte for byte, and a test can stop the process at every call of `Files`.

`gantrymq.world.real` implements them with the operating system, `gantrymq_testing.simulated` in memory;
`gantrymq_testing.recording` wraps the files of either and records the calls.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from gantrymq.world.clock import Clock, Timer
from gantrymq.world.files import (
    DiskUsage,
    File,
    FileLocks,
    FileReader,
    Files,
    FileStat,
    FileTree,
    Lock,
    Volume,
    is_disk_full,
)
from gantrymq.world.network import Listener, Network, ProtocolFactory
from gantrymq.world.workers import Workers

if TYPE_CHECKING:
    import random

__all__ = [
    "Clock",
    "DiskUsage",
    "File",
    "FileLocks",
    "FileReader",
    "FileStat",
    "FileTree",
    "Files",
    "Listener",
    "Lock",
    "Network",
    "ProtocolFactory",
    "Timer",
    "Volume",
    "Workers",
    "World",
    "is_disk_full",
]


def _one() -> float:
    """Default: one processor."""
    return 1.0


def _many() -> int:
    return 1_048_576


def _nothing() -> None:
    """Default: nothing to yield to."""


@attrs.frozen
class World:
    """Clock, network, files, worker threads and randomness, passed to all components at start."""

    clock: Clock
    network: Network
    files: Files
    workers: Workers
    random: random.Random
    process_id: int
    host_name: str
    environ: collections.abc.Mapping[str, str] = attrs.field(factory=dict)  # may change at any time
    processors: Callable[[], float] = _one  # usable at once by this process; reads files
    descriptors: Callable[[], int] = _many  # limit of open files and sockets of this process
    yield_processor: Callable[[], object] = _nothing  # let other threads use this processor
