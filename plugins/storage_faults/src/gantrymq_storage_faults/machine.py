"""The machine that processes run on, one after the other: its page cache is there until the power goes.

    machine = Machine(SimulatedFiles(...))         everything on the disk is durable now
    files = FaultyFiles(machine, Plan(crash_at=90))
    ... work, until it is killed ...
    files = FaultyFiles(machine, Plan())           sees all that was written; what nobody synced is not durable yet
    ... work on ...
    machine.power_cut(Plan(seed=7))                takes what neither of the two has synced

What of each file and name is durable (`Names`, `Node`), and which errors wait to be told (`ErrorMark`), belongs here.
"""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Protocol

import attrs

from gantrymq.world import Files
from gantrymq_storage_faults.errors_told import ErrorMark
from gantrymq_storage_faults.names import Names
from gantrymq_storage_faults.pages import Fate, Node
from gantrymq_storage_faults.plan import Plan

__all__ = ["Machine", "PowerCut"]


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


class Process(Protocol):
    """What runs here."""

    def crash(self) -> None:
        """End it."""


class Machine:
    """A disk, and the page cache before it."""

    def __init__(self, inner: Files) -> None:
        """*inner*: the disk as processes see it; everything on it counts as durable now."""
        self.inner = inner
        self.names = Names(inner)
        self.errors = ErrorMark()  # of the file system, for `Volume.sync`
        self.lock = threading.RLock()  # of everything here
        self.processes: list[Process] = []

    def power_cut(self, plan: Plan | None = None, rng: random.Random | None = None) -> PowerCut:
        """End every process and take what is not durable; what is left on the disk is.

        Args:
            plan: says what is lost and torn.
            rng: draws it, by default one of the plan's seed.
        """
        plan = plan if plan is not None else Plan()
        rng = rng if rng is not None else random.Random(f"{plan.seed}/power")
        for process in list(self.processes):
            process.crash()
        names, fate = self.names, Fate()
        lost = names.lose(plan, rng)
        for path, node in sorted(names.nodes.items()):
            if not node.durable:
                file = self.inner.open(path)
                try:
                    node.spoil(file, plan, rng, fate)
                finally:
                    file.close()
        names.nodes = {path: _fresh(node) for path, node in names.nodes.items()}
        self.errors = ErrorMark()
        return PowerCut(fate.kept, fate.lost, fate.torn, tuple(lost))

    @property
    def untold(self) -> bool:
        """Whether the next sync of some file, or of the volume, tells of an error though nothing fails any more."""
        return self.errors.untold or any(node.errors.untold for node in self.names.nodes.values())

    def write_back(self, node: Node, page: int, number: int) -> None:
        """The kernel has written a page by itself, or could not (errno *number*)."""
        if number:
            node.write_back_failed(page, number)
            self.errors.set(number)
        else:
            stat = self.inner.stat(node.path)
            node.write_back(page, stat.size if stat is not None else 0)

    def evict(self, rng: random.Random) -> Path | None:
        """Some lost page is read from the disk again; returns the file's path, None where nothing is lost."""
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
    """The same file after the power came back: nothing of it was told to anybody."""
    fresh = Node(node.path, 0)
    fresh.blocks = node.blocks
    return fresh
