"""kill -9 of the broker with delayed, timed, transactional, popped and failed messages, repeatedly on one store.

Each round starts the broker on the store of the previous rounds, lets the clients of `crash_rig.kinds` work, and kills
it at a seeded moment; some starts are killed as well. Afterwards the broker runs until everything is due, and every
guarantee in `crash_rig/kinds_oracle.py` is checked: nothing acknowledged is lost, no message is delivered twice or
early.

    GANTRYMQ_KILLS      rounds; 2 by default, 60 with -m long
    GANTRYMQ_KILL_SEED  seed of all choices
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("gantrymq_schedule")
pytest.importorskip("gantrymq_transaction")
pytest.importorskip("gantrymq_pop")
pytest.importorskip("gantrymq_storage_faults")

from crash_rig.kinds import SETTINGS, Kinds
from crash_rig.kinds_ledger import KindsLedger, Losses
from crash_rig.kinds_oracle import Findings, judge, judge_offsets
from durability_rig.broker_process import BrokerProcess
from durability_rig.kinds_round import RemoteLife

from gantrymq.world.real import real_world

SEED = os.environ.get("GANTRYMQ_KILL_SEED", "31337")
SOME, MANY = 2, 60
WORKED_S = (0.3, 2.5)  # until the kill
PAUSE_S = 0.03  # at most, between two operations
START_KILLED, START_LASTS_S = 0.3, 0.8
SETTLE_S = 12.0  # everything is due by then, and was tried again
COMMITS_S = 1.0  # a commit is saved by then
QUICK = {"flushConsumerOffsetInterval": 200, "timerFlushIntervalMs": 300, "flushDelayOffsetInterval": 1000}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize(
    "kills", [pytest.param(SOME, id="some"), pytest.param(MANY, id="many", marks=pytest.mark.long)]
)
def test_every_kind_keeps_its_promise_through_kills(
    kills: int, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kills = int(os.environ.get("GANTRYMQ_KILLS", kills))
    findings = asyncio.run(_all_of_it(tmp_path, kills))
    text = f"seed {SEED}, {kills} kills: {findings.sent} sent, {findings.acknowledged} acknowledged, {findings.ends}"
    print(text)
    record_property("findings", text)
    assert not findings.problems, "\n".join(findings.problems[:8])
    assert findings.acknowledged > 10 * kills


async def _all_of_it(folder: Path, kills: int) -> Findings:
    world, ledger, ends = real_world(), KindsLedger(), []
    store, scratch = folder / "store", folder / "processes"
    try:
        for number in range(kills):
            rng = random.Random(f"{SEED}/{number}")
            if number and rng.random() < START_KILLED:
                with BrokerProcess(store, scratch, SETTINGS | QUICK) as broker:
                    assert not broker.ended_within(rng.uniform(0, START_LASTS_S)), broker.errors
                    broker.kill()
            with BrokerProcess(store, scratch, SETTINGS | QUICK) as broker:
                life = await _found(world, broker, ledger, ends)
                kinds = Kinds(life, ledger, SEED, number, last=False)  # type: ignore[arg-type]
                work = asyncio.ensure_future(kinds.run(1 << 30, PAUSE_S))
                await asyncio.wait([work], timeout=rng.uniform(*WORKED_S))
                broker.kill()
                ends.append(world.clock.monotonic())
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
        with BrokerProcess(store, scratch, SETTINGS | QUICK) as broker:
            life = await _found(world, broker, ledger, ends)
            last = Kinds(life, ledger, SEED, kills, last=True)  # type: ignore[arg-type]
            await last.settle(SETTLE_S, Losses())
            findings = judge(ledger, await life.records(), Losses(), kills, kind_disk=True)
            assert broker.terminate() == 0, broker.errors
        return findings
    finally:
        await world.workers.close()


async def _found(world, broker: BrokerProcess, ledger: KindsLedger, ends: list[float]) -> RemoteLife:
    """The broker that has just started; its committed offsets are judged."""
    host, _, port = str(broker.ready()["broker"]).rpartition(":")
    life = RemoteLife(world, host, int(port))
    await life.look(broker.namesrv())
    findings = Findings()
    judge_offsets(life.offsets, {}, ledger, ends, COMMITS_S, findings)
    assert not findings.problems, findings.problems
    return life
