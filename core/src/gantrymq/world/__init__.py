"""What touches the outside: clock, network, files and work off the event loop.

Everything above takes a `World` and never reaches around it, so that one seeded run in memory on a virtual clock
repeats byte for byte, and a test can stop the process at every single call of `Files`.

`gantrymq.world.real` is the operating system. Tests have others: `gantrymq_testing.simulated` is memory and seeds, and
`gantrymq_testing.recording` wraps either's files and remembers the order of calls.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs

from gantrymq.world.clock import Clock, Timer
from gantrymq.world.files import DiskUsage, File, Files, FileStat, Lock, Mapping, Volume, is_disk_full
from gantrymq.world.network import Listener, Network, ProtocolFactory
from gantrymq.world.workers import Workers

if TYPE_CHECKING:
    import random

__all__ = [
    "Clock",
    "DiskUsage",
    "File",
    "FileStat",
    "Files",
    "Listener",
    "Lock",
    "Mapping",
    "Network",
    "ProtocolFactory",
    "Timer",
    "Volume",
    "Workers",
    "World",
    "is_disk_full",
]


def _one() -> float:
    """Where nothing runs beside this thread."""
    return 1.0


def _many() -> int:
    return 1_048_576


def _nothing() -> None:
    """Where nobody waits."""


@attrs.frozen
class World:
    """Clock, network, files, worker threads and randomness, handed in at start."""

    clock: Clock
    network: Network
    files: Files
    workers: Workers
    random: random.Random
    process_id: int
    host_name: str
    environ: collections.abc.Mapping[str, str] = attrs.field(factory=dict)  # may change at any time
    processors: Callable[[], float] = _one  # that this process may use at once; reads files
    descriptors: Callable[[], int] = _many  # files and sockets that this process may have open at once
    yield_processor: Callable[[], object] = _nothing  # to whoever waits for this thread's processor
