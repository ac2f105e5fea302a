"""The history of a store until a power cut, drawn from a seed or fixed, and its execution.

A history is a sequence of lives of the broker. Each is loaded in phases, and ends by kill -9, the last by the power
cut. Topics that a phase leaves out are idle: their unsynced data stays in the page cache, through the kill and the
start after it, until the power cut.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Findings, Ledger
from durability_rig.load import TOPICS, Load, make_load_topics, read_everything
from durability_rig.loop_disks import LoopDisk

PAUSE_S = 0.02  # at most, between two sends of a task: the load is steady, not as fast as it can be
AFTER = 30  # requests acknowledged by the recovered store
END_S = 60.0  # for operations in progress at the end of a load

LEAST_S, MOST_S = 0.3, 3.0  # a phase under load
IDLE_S = 9.0  # a phase that leaves topics out, at most
START_CUT, START_LASTS_S = 0.3, 0.6  # share of starts that lose the power too, and when


class LoadPhase(NamedTuple):
    """Some seconds of load."""

    topics: tuple[str, ...]  # topics that get messages; without any, nothing happens
    seconds: float


class Life(NamedTuple):
    """One broker process, from its start to its sudden end."""

    settings: Mapping[str, object]
    phases: tuple[LoadPhase, ...]


class History(NamedTuple):
    """Everything that is decided beforehand."""

    seed: str
    lives: tuple[Life, ...]
    start_cut_s: float | None = None  # the start after the power cut loses the power too, so long after it began

    def __str__(self) -> str:
        def told(life: Life) -> str:
            return ", ".join(f"{'+'.join(each.topics) or 'nothing'} {each.seconds:.1f} s" for each in life.phases)

        lives = "; kill; ".join(map(told, self.lives))
        again = "" if self.start_cut_s is None else f"; the start is cut too, after {self.start_cut_s:.2f} s"
        return f"{lives}; power cut{again}"


def drawn(seed: str) -> History:
    """Return the history of *seed*: 0 to 2 kills, and topics that are idle for some time before each end."""
    rng = random.Random(seed)

    def life() -> Life:
        settings = {
            "flushIntervalConsumeQueue": rng.choice((50, 200, 1000)),
            "flushConsumeQueueThoroughInterval": rng.choice((100, 1500, 10_000, 60_000)),
            "flushConsumeQueueLeastPages": rng.choice((0, 2)),
        }
        phases = [LoadPhase(TOPICS, rng.uniform(LEAST_S, MOST_S))]
        if rng.random() < 0.6:
            busy = tuple(sorted(rng.sample(TOPICS, rng.randint(1, len(TOPICS) - 1))))
            phases.append(LoadPhase(busy, rng.uniform(LEAST_S, IDLE_S)))
        return Life(settings, tuple(phases))

    lives = [life() for _ in range(rng.randint(1, 3))]
    if len(lives) > 1 and rng.random() < 0.5:  # topics idle before the kill stay idle to the end
        settings, (*_, last) = lives[-1]
        lives[-1] = Life(settings, (LoadPhase(lives[-2].phases[-1].topics, rng.uniform(last.seconds, IDLE_S)),))
    return History(seed, tuple(lives), rng.uniform(0, START_LASTS_S) if rng.random() < START_CUT else None)


class Outcome(NamedTuple):
    """State of a store after its history."""

    findings: Findings  # of the messages after the power cut
    after: Findings  # of these, and of the messages sent to the recovered store
    check: list[str]  # findings of `gantrymq store check`
    told: str  # stderr of the starts after the cut


class PowerHistory:
    """Executes a history on *disk*, cuts the power, and checks the result."""

    def __init__(self, history: History, disk: LoopDisk, scratch: Path) -> None:
        self._history, self._disk, self._scratch = history, disk, scratch
        self._ledger = Ledger()

    def run(self) -> Outcome:
        """Live all lives, then recover the copy of the disk."""
        *killed, last = self._history.lives
        for number, life in enumerate(killed):
            self._live(life, number, lambda: None)
        cuts: list[tuple[LoopDisk, Ledger]] = []

        def cut() -> None:
            known = copy.deepcopy(self._ledger)  # this process takes no acknowledgement between here and the copy
            cuts.append((self._disk.cut("cut"), known))

        self._live(last, len(killed), cut)
        return self._recover(*cuts[0])

    def _live(self, life: Life, number: int, at_end: Callable[[], None]) -> None:
        with BrokerProcess(self._disk.folder / "store", self._scratch, life.settings) as broker:
            asyncio.run(self._loaded(broker, life, number, at_end))
            broker.kill()
        assert not self._ledger.refusals, f"{self._ledger.refusals}\n{broker.errors}"

    async def _loaded(self, broker: BrokerProcess, life: Life, number: int, at_end: Callable[[], None]) -> None:
        """Load until the end, which comes under load where the last phase has topics."""
        namesrv = broker.namesrv()
        if number == 0:
            await make_load_topics(namesrv, self._ledger)
        for step, phase in enumerate(life.phases):
            ends = step == len(life.phases) - 1
            if not phase.topics:
                await asyncio.sleep(phase.seconds)  # real time: length of the idle phase
                if ends:
                    at_end()
                continue
            seed = f"{self._history.seed}/{number}/{step}"
            new = (f"Auto{number}x{step}",) if len(phase.topics) > 1 else ()
            load = Load(self._ledger, namesrv, seed, topics=phase.topics, new_topics=new, pause_s=PAUSE_S)
            work = asyncio.gather(load.run(), load.follow(phase.topics[0]))
            done, _ = await asyncio.wait((work,), timeout=phase.seconds)
            assert not done, f"the load ended by itself: {self._ledger.refusals}\n{broker.errors}"
            if ends:
                at_end()
                broker.send_kill()
            load.stop()
            await asyncio.wait_for(work, END_S)

    def _recover(self, disk: LoopDisk, ledger: Ledger) -> Outcome:
        if self._history.start_cut_s is not None:
            with disk, BrokerProcess(disk.folder / "store", self._scratch) as broker:
                assert not broker.ended_within(self._history.start_cut_s), broker.errors
                again = disk.cut("start")
                broker.kill()
            disk = again
        with disk:
            with BrokerProcess(disk.folder / "store", self._scratch) as broker:
                findings, after = asyncio.run(self._looked_at(broker, ledger))
                assert broker.terminate() == 0, broker.errors
            return Outcome(findings, after, checked(disk.folder / "store"), broker.errors)

    async def _looked_at(self, broker: BrokerProcess, ledger: Ledger) -> tuple[Findings, Findings]:
        """Read everything, send some more, and read everything again."""
        namesrv = broker.namesrv()
        findings = ledger.compare(*await read_everything(namesrv, holes=True), holes=True)
        if findings.problems:
            return findings, findings
        requests = 0

        def acknowledged() -> None:
            nonlocal requests
            requests += 1
            if requests >= AFTER:
                load.stop()

        load = Load(ledger, namesrv, f"{self._history.seed}/after", on_acknowledged=acknowledged)
        await asyncio.wait_for(load.run(), END_S)
        assert not ledger.refusals, f"{ledger.refusals}\n{broker.errors}"
        return findings, ledger.compare(*await read_everything(namesrv, holes=True), holes=True)


def checked(store: Path) -> list[str]:
    """Return the findings of ``gantrymq store check`` in a store that is not open."""
    program = Path(sys.executable).parent / "gantrymq"
    words = [program, "store", "check", store, "--output", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=END_S)
    if not done.stdout.startswith("{"):
        return [f"exit code {done.returncode}: {done.stderr}"]
    found = json.loads(done.stdout)["findings"]
    assert done.returncode == any(each["damage"] for each in found), done.stderr
    return [f"{each['kind']} in {each['path']}: {each['text']}" for each in found]
