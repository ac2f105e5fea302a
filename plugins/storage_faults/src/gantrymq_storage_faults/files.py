"""`FaultyFiles`: any `Files` with a plan of what goes wrong, and with a plug that can be pulled.

    files = FaultyFiles(RealFiles(), Plan(seed=7, crash_at=120))     or over SimulatedFiles
    ... run the store in a world with these files until Crashed ...
    files.power_cut()                                                leave it out for a mere kill
    ... start the store again, over the files underneath or over FaultyFiles of another plan ...

After a crash the descriptors, mappings and locks of the process are given back, as the operating system does, and every
further call raises `Crashed`. The files underneath are what a process sees: after a kill they are what is left. After a
power cut they have lost what nobody synced; `power_cut` rewrites them in place.

Who is under the plan must not be read past it: pages that others write into the same files are not watched. What is
removed is kept in memory until its folder is synced, so stores of small files are what this is for.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import attrs

from gantrymq.world import Files
from gantrymq.world.simulated.process_files import ProcessFiles
from gantrymq_storage_faults.calls import Calls, Crashed
from gantrymq_storage_faults.layer import Layer
from gantrymq_storage_faults.pages import Fate
from gantrymq_storage_faults.plan import Plan
from gantrymq_storage_faults.room import Room

__all__ = ["FaultyFiles", "PowerCut", "flip_bit"]


@attrs.frozen
class PowerCut:
    """What a power cut took."""

    pages_kept: int  # dirty ones that had got to the disk by themselves
    pages_lost: int
    pages_torn: int
    names_lost: tuple[str, ...]  # in words

    def __str__(self) -> str:
        pages = f"pages: {self.pages_kept} kept, {self.pages_lost} lost, {self.pages_torn} torn"
        return "; ".join([pages, *self.names_lost])


class FaultyFiles(ProcessFiles):
    """`Files` of one process. May be used from several threads; the calls take turns."""

    def __init__(
        self,
        inner: Files,
        plan: Plan | None = None,
        *,
        on_crash: Callable[[], object] = lambda: None,
        stall: Callable[[float], object] | None = None,
    ) -> None:
        """Put *plan* over *inner*.

        Args:
            inner: the disk; everything on it counts as durable.
            plan: by default nothing goes wrong by itself, but the power may be cut.
            on_crash: called once when the process ends, such as ``SimulatedProcess.kill``.
            stall: called with the seconds that a slow call takes outside `LateWorkers`, such as ``SimulatedLoop.jump``
                or ``time.sleep``; without it such calls are not slow.
        """
        self.plan = plan if plan is not None else Plan()
        self._calls = Calls(self.plan)
        self._room = Room(self.plan.room_bytes)
        self._layer = Layer(inner, self._calls, self._room)
        self._under = inner
        self._random = random.Random(f"{self.plan.seed}/power")
        self._calls.on_crash = self._ended
        self._calls.after = self._write_back
        self._calls.stall = stall
        self._on_crash = on_crash
        super().__init__(self._layer, self._alive)

    @property
    def calls(self) -> int:
        """How many calls were made; one more than the last number that ``crash_at`` can meet is never met."""
        return self._calls.number

    @property
    def counts(self) -> Counter[str]:
        """How many calls were made, by name."""
        return self._calls.counts.copy()

    @property
    def crashed(self) -> bool:
        """Whether the process has ended."""
        return self._calls.dead

    @property
    def room_bytes(self) -> int | None:
        """What may still be taken on the disk; set it to fill the disk or to make room."""
        return self._room.left

    @room_bytes.setter
    def room_bytes(self, length: int | None) -> None:
        self._room.left = length

    def crash(self) -> None:
        """End the process here; harmless the second time."""
        with self._calls.lock:
            if not self._calls.dead:
                self._calls.end()

    def power_cut(self) -> PowerCut:
        """End the process and take what is not durable; the files underneath are then what the disk has."""
        self.crash()
        names = self._layer.names
        lost = names.lose(self.plan, self._random)
        fate = Fate()
        for path in sorted(names.nodes):
            node = names.nodes[path]
            if node.dirty:
                file = self._under.open(path)
                try:
                    node.spoil(file, self.plan, self._random, fate)
                finally:
                    file.close()
        return PowerCut(fate.kept, fate.lost, fate.torn, tuple(lost))

    def begin_work(self) -> None:
        """For `LateWorkers`: this thread begins work off the loop."""
        self._calls.begin_work()

    def end_work(self) -> float:
        """For `LateWorkers`: seconds that slow calls of this thread took since."""
        return self._calls.end_work()

    def trace(self, last: int = 40) -> str:
        """Seed and newest calls, to be printed when a test fails."""
        head = f"seed {self.plan.seed!r}, {self.calls} calls, the last {min(last, self.calls)}:"
        return f"{head}\n{self._calls.trace(last)}"

    def _alive(self, *, changes: bool) -> None:
        if self._calls.dead:
            raise Crashed(f"the process ended at call {self._calls.number}")

    def _ended(self) -> None:
        self.break_off()
        self._on_crash()

    def _write_back(self) -> None:
        """The kernel writes pages when it likes."""
        if self._random.random() < self.plan.write_back:
            dirty = [node for _, node in sorted(self._layer.names.nodes.items()) if node.old]
            if dirty:
                self._random.choice(dirty).write_back(self._random)


def flip_bit(files: Files, path: Path, position: int, bit: int) -> None:
    """Change bit *bit* (0 is the lowest) of byte *position* of the file at rest."""
    file = files.open(path)
    try:
        (value,) = file.pread(1, position)
        file.pwrite(bytes([value ^ 1 << bit]), position)
    finally:
        file.close()
