"""`FaultyFiles`: any `Files` with a plan of failures, and a simulated power cut.

    files = FaultyFiles(RealFiles(), FaultPlan(seed=7, crash_at=120))     or over SimulatedFiles
    ... run the store in a world with these files until Crashed ...
    files.power_cut()                                                     omit it to simulate a kill only
    ... start the store again, over the files underneath or over FaultyFiles with another plan ...

After a crash the descriptors and locks of the process are released, as by the operating system, and every
further call raises `Crashed`. The files underneath are what a process sees: after a kill they are unchanged. After a
power cut they have lost everything that was not synced; `power_cut` rewrites them in place.

For the next `FaultyFiles` over the same files, everything that a killed process left in the page cache is durable. With
both over one `Machine`, it is not durable until it is synced.

All accesses must go through this object: changes made to the files in other ways are not tracked. Removed files are
held in memory until their folder is synced, so this is meant for stores of small files.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from gantrymq.plugin.world import Files
from gantrymq_storage_faults.calls import Calls, Crashed
from gantrymq_storage_faults.disk_space import DiskSpace
from gantrymq_storage_faults.layer import Layer
from gantrymq_storage_faults.machine import Machine, PowerCut
from gantrymq_storage_faults.plan import Failure, FaultPlan
from gantrymq_testing.simulated.process import ProcessFiles

__all__ = ["FaultyFiles", "PowerCut", "flip_bit"]


class FaultyFiles(ProcessFiles):
    """`Files` of one process. For use from several threads; calls are serialized."""

    def __init__(
        self,
        disk: Files | Machine,
        plan: FaultPlan | None = None,
        *,
        on_crash: Callable[[], object] = lambda: None,
        stall: Callable[[float], object] | None = None,
    ) -> None:
        """Apply *plan* to *disk*.

        Args:
            disk: the machine of this process; or files, which become a machine of their own: everything on them counts
                as durable.
            plan: by default nothing fails, but the power may be cut.
            on_crash: called once when the process ends, such as ``SimulatedProcess.kill``.
            stall: called with the seconds of a slow call outside `LateWorkers`, such as ``SimulatedLoop.jump`` or
                ``time.sleep``; without it such calls are not slow.
        """
        self.plan = plan if plan is not None else FaultPlan()
        self.machine = disk if isinstance(disk, Machine) else Machine(disk)
        self._calls = Calls(self.plan, self.machine.lock)
        self._room = DiskSpace(self.plan.room_bytes)
        self._layer = Layer(self.machine, self._calls, self._room)
        self._random = random.Random(f"{self.plan.seed}/power")
        self._random_cache = random.Random(f"{self.plan.seed}/cache")
        self._calls.on_crash = self._ended
        self._calls.after = self._kernel
        self._calls.stall = stall
        self._on_crash = on_crash
        self.machine.processes.append(self)
        super().__init__(self._layer, self._alive)

    @property
    def calls(self) -> int:
        """Number of calls so far; a larger ``crash_at`` was not reached."""
        return self._calls.number

    @property
    def counts(self) -> Counter[str]:
        """Number of calls by name."""
        return self._calls.counts.copy()

    @property
    def failed(self) -> Counter[str]:
        """Number of planned failures by name, including implicit operations such as "write_back"."""
        return self._calls.failed.copy()

    def fail(self, *failures: Failure) -> None:
        """Add failures to the plan while the world runs."""
        with self._calls.lock:
            self._calls.fail(*failures)

    @property
    def crashed(self) -> bool:
        """Whether the process has ended."""
        return self._calls.dead

    @property
    def room_bytes(self) -> int | None:
        """Remaining disk space in bytes; set it to fill the disk or to free space."""
        return self._room.left

    @room_bytes.setter
    def room_bytes(self, length: int | None) -> None:
        self._room.left = length

    def crash(self) -> None:
        """End the process now; further calls do nothing."""
        with self._calls.lock:
            if not self._calls.dead:
                self._calls.end()

    def power_cut(self) -> PowerCut:
        """End this process and all others of its machine, and discard what is not durable."""
        return self.machine.power_cut(self.plan, self._random)

    def begin_work(self) -> None:
        """For `LateWorkers`: this thread starts work off the event loop."""
        self._calls.begin_work()

    def end_work(self) -> float:
        """For `LateWorkers`: return the seconds of slow calls of this thread since `begin_work`."""
        return self._calls.end_work()

    def trace(self, last: int = 40) -> str:
        """Return the seed and the newest calls, to print when a test fails."""
        head = f"seed {self.plan.seed!r}, {self.calls} calls, the last {min(last, self.calls)}:"
        return f"{head}\n{self._calls.trace(last)}"

    def _alive(self, *, changes: bool) -> None:
        if self._calls.dead:
            raise Crashed(f"the process ended at call {self._calls.number}")

    def _ended(self) -> None:
        self.machine.processes.remove(self)
        self.break_off()
        self._on_crash()

    def _kernel(self) -> None:
        """Simulate the kernel: write back dirty pages and evict lost pages at random."""
        if self._random.random() < self.plan.write_back:
            dirty = [node for _, node in sorted(self.machine.names.nodes.items()) if node.dirty]
            if dirty:
                node = self._random.choice(dirty)
                page = self._random.choice(list(node.dirty))
                self.machine.write_back(node, page, self._calls.implicit_failure("write_back", node.path))
        if self.plan.evict and self._random_cache.random() < self.plan.evict:
            path = self.machine.evict(self._random_cache)
            if path is not None:
                self._calls.set_outcome(f"a lost page of {path} left the cache")


def flip_bit(files: Files, path: Path, position: int, bit: int) -> None:
    """Flip bit *bit* (0 is the lowest) of byte *position* of the file."""
    file = files.open(path)
    try:
        (value,) = file.pread(1, position)
        file.pwrite(bytes([value ^ 1 << bit]), position)
    finally:
        file.close()
