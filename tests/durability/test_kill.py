"""kill -9 of the broker under load, repeatedly on one store: no acknowledged message is lost.

Each round starts the broker on the store of all previous rounds, reads everything back and compares it with the ledger,
then sends until a seeded number of acknowledgements has arrived, and kills the process a seeded time later. Some rounds
kill a start as well. Afterwards every acknowledged message must exist once, at the queue offset that was acknowledged,
with its body; queue offsets have neither gaps nor repetitions; every acknowledged topic exists; every message that a
consumer has seen still exists.

    GANTRYMQ_KILLS      rounds; 3 by default, 200 with -m long
    GANTRYMQ_KILL_SEED  seed of all choices

The kernel keeps everything that a killed process has written, so this tests recovery and not syncs: those are tested by
test_sync_before_reply.py.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Findings, Ledger, summary
from durability_rig.load import TOPICS, Load, make_load_topics, read_everything

SEED = os.environ.get("GANTRYMQ_KILL_SEED", "31337")
SOME, MANY = 3, 200
ACKNOWLEDGED = (60, 800)  # requests acknowledged before the kill
LATER_S = 0.03  # at most, from the last of them to the kill
START_KILLED = 0.3  # share of rounds in which a start is killed too
START_LASTS_S = 0.5
LOAD_S = 120.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(
    "kills", [pytest.param(SOME, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.long)]
)
def test_every_acknowledged_message_survives_kills(
    kills: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kills = int(os.environ.get("GANTRYMQ_KILLS", kills))
    record_property("seed", SEED)
    print(f"seed {SEED}, {kills} kills")
    run = KillRun(tmp_path)
    for number in range(kills):
        run.round(number)
    findings = run.last_look()
    print(f"total: {findings}\n  starts killed {run.starts_killed}, sent by topic: {summary(run.ledger)}")
    record_property("findings", str(findings))
    assert findings.problems == 0, findings
    assert findings.acknowledged >= kills * ACKNOWLEDGED[0]
    assert len(list((tmp_path / "store" / "commitlog").iterdir())) > kills  # files rolled under the load


class KillRun:
    """One store and its ledger through all rounds."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger()
        self.starts_killed = 0
        self._store, self._scratch = folder / "store", folder / "processes"

    def round(self, number: int) -> None:
        """Start (perhaps after a start that is killed), verify, send, kill."""
        rng = random.Random(f"{SEED}/{number}")
        settings = {
            "flushIntervalConsumeQueue": 50,
            "flushConsumeQueueThoroughInterval": rng.choice((100, 60_000)),  # where the next recovery begins
            "hotReadWindow": rng.choice((0, 256 * 1024**2)),
        }
        if number and rng.random() < START_KILLED:
            self._kill_a_start(rng, settings)
        with BrokerProcess(self._store, self._scratch, settings) as broker:
            findings = asyncio.run(self._round(broker, rng, number))
            broker.kill()
        print(f"round {number}: before the load {findings}")
        assert findings.problems == 0, f"seed {SEED}, round {number}: {findings}\n{broker.errors}"
        assert not self.ledger.refusals, f"seed {SEED}, round {number}: {self.ledger.refusals}\n{broker.errors}"

    def last_look(self) -> Findings:
        """Read everything once more, stop in order, and read it again after that."""
        for _ in range(2):
            with BrokerProcess(self._store, self._scratch) as broker:
                findings = asyncio.run(self._compare(broker.namesrv()))
                assert findings.problems == 0, f"seed {SEED}: {findings}\n{broker.errors}"
                assert broker.terminate() == 0, broker.errors
        return findings

    def _kill_a_start(self, rng: random.Random, settings: dict[str, int]) -> None:
        with BrokerProcess(self._store, self._scratch, settings) as broker:
            assert not broker.ended_within(rng.uniform(0, START_LASTS_S)), broker.errors
            broker.kill()
        self.starts_killed += 1

    async def _round(self, broker: BrokerProcess, rng: random.Random, number: int) -> Findings:
        namesrv = broker.namesrv()
        if number == 0:
            await make_load_topics(namesrv, self.ledger)
        findings = await self._compare(namesrv)
        wanted, later_s = rng.randint(*ACKNOWLEDGED), rng.uniform(0, LATER_S)
        made = tuple(f"Made{number}x{each}" for each in range(3))
        due = {rng.randint(1, wanted) for _ in made} | {wanted}
        turns = asyncio.Semaphore(0)  # to create the next topic
        requests = 0
        loop = asyncio.get_running_loop()

        def acknowledged() -> None:
            nonlocal requests
            requests += 1
            if requests in due:
                turns.release()
            if requests == wanted:
                loop.call_later(later_s, kill)

        def kill() -> None:
            load.stop()
            broker.send_kill()
            for _ in made:
                turns.release()

        seed = f"{SEED}/{number}"
        load = Load(self.ledger, namesrv, seed, new_topics=(f"Auto{number}",), on_acknowledged=acknowledged)
        work = (load.run(), load.follow(rng.choice(TOPICS)), load.make_topics(made, turns))
        await asyncio.wait_for(asyncio.gather(*work), LOAD_S)
        return findings

    async def _compare(self, namesrv: str) -> Findings:
        content, topics = await read_everything(namesrv)
        findings = self.ledger.compare(content, topics)
        for topic, queues in self.ledger.topics.items():
            if queues and topics.get(topic, queues) != queues:
                findings.wrong("missing_topics", f"{topic} has {topics[topic]} queues, not {queues}")
        return findings
