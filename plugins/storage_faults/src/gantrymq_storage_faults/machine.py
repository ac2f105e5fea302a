"""The machine on which processes run one after another: its page cache survives until the power is cut.

    machine = Machine(SimulatedFiles(...))         everything on the disk is durable now
    files = FaultyFiles(machine, FaultPlan(crash_at=90))
    ... work until the process is killed ...
    files = FaultyFiles(machine, FaultPlan())      sees all that was written; unsynced data is still not durable
    ... continue to work ...
    machine.power_cut(FaultPlan(seed=7))           removes what neither process has synced

The machine tracks which names (`Names`) and which contents (`Node`) are durable, and which errors are still to be
reported (`ErrorSequence`).
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Protocol

import attrs

from gantrymq.plugin.world import Files
from gantrymq_storage_faults.error_sequence import ErrorSequence
from gantrymq_storage_faults.names import Names
from gantrymq_storage_faults.pages import Node, PageCounts
from gantrymq_storage_faults.plan import FaultPlan


@attrs.frozen
class PowerCut:
    """The result of a power cut."""

    pages_kept: int  # dirty pages that the kernel had already written
    pages_lost: int
    pages_torn: int
    names_lost: tuple[str, ...]  # one description per lost change

    def __str__(self) -> str:
        pages = f"pages: {self.pages_kept} kept, {self.pages_lost} lost, {self.pages_torn} torn"
        return "; ".join([pages, *self.names_lost])


class Process(Protocol):
    """A process that runs on the machine."""

    def crash(self) -> None:
        """End the process."""


class Machine:
    """A disk and its page cache."""

    def __init__(self, inner: Files) -> None:
        """*inner*: the disk as processes see it; everything on it counts as durable now."""
        self.inner = inner
        self.names = Names(inner)
        self.errors = ErrorSequence()  # of the file system, for `Volume.sync`
        self.lock = threading.RLock()  # of everything here
        self.processes: list[Process] = []

    def power_cut(self, plan: FaultPlan | None = None, rng: random.Random | None = None) -> PowerCut:
        """End every process and discard what is not durable; everything left on the disk is durable.

        Args:
            plan: what is lost and torn.
            rng: source of randomness, by default seeded by the plan.
        """
        plan = plan if plan is not None else FaultPlan()
        rng = rng if rng is not None else random.Random(f"{plan.seed}/power")
        for process in list(self.processes):
            process.crash()
        names, fate = self.names, PageCounts()
        lost = names.lose(plan, rng)
        for path, node in sorted(names.nodes.items()):
            if not node.durable:
                file = self.inner.open(path)
                try:
                    node.discard_unsynced(file, plan, rng, fate)
                finally:
                    file.close()
        names.nodes = {path: _fresh(node) for path, node in names.nodes.items()}
        self.errors = ErrorSequence()
        return PowerCut(fate.kept, fate.lost, fate.torn, tuple(lost))

    @property
    def unreported(self) -> bool:
        """Whether the next sync of a file or of the volume will report an error from an earlier write."""
        return self.errors.unreported or any(node.errors.unreported for node in self.names.nodes.values())

    def write_back(self, node: Node, page: int, number: int) -> None:
        """Record that the kernel wrote a page on its own, or failed to do so (errno *number*, 0 for success)."""
        if number:
            node.write_back_failed(page, number)
            self.errors.set(number)
        else:
            stat = self.inner.stat(node.path)
            node.write_back(page, stat.size if stat is not None else 0)

    def evict(self, rng: random.Random) -> Path | None:
        """Reload one lost page from the disk; return the path of its file, None if no page is lost."""
        found = [(path, page) for path, node in sorted(self.names.nodes.items()) for page in node.lost]
        if not found:
            return None
        path, page = rng.choice(found)
        file = self.inner.open(path)
        try:
            self.names.nodes[path].evict(page, file)
        finally:
            file.close()
        return path


def _fresh(node: Node) -> Node:
    """Return the node of the same file after the power came back, without any reported errors."""
    fresh = Node(node.path, 0)
    fresh.blocks = node.blocks
    return fresh
