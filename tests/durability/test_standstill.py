"""SIGSTOP under load, and SIGCONT later: what had no answer is stored once or not at all, and everything goes on."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Ledger
from durability_rig.load import Load, make_load_topics, read_everything

REQUESTS = 150
LOAD_S = 120.0

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.long)])
def test_a_broker_that_stood_still_loses_and_repeats_nothing(tmp_path: Path, seconds: float) -> None:
    ledger = Ledger()

    async def work(broker: BrokerProcess) -> None:
        namesrv = broker.namesrv()
        await make_load_topics(namesrv, ledger)
        for number, pauses in enumerate((True, False)):
            load = await loaded(broker, namesrv, number, pauses=pauses)
            if pauses:
                await asyncio.sleep(seconds)
                broker.resume()
            await asyncio.wait_for(load, LOAD_S)

    async def loaded(broker: BrokerProcess, namesrv: str, number: int, *, pauses: bool) -> asyncio.Task[None]:
        reached, answers = asyncio.Event(), 0

        def acknowledged() -> None:
            nonlocal answers
            answers += 1
            if answers == REQUESTS:
                load.stop()
                if pauses:
                    broker.pause()  # what is under way gets its answer late, or never
                reached.set()

        load = Load(ledger, namesrv, f"standstill/{number}", on_acknowledged=acknowledged)
        task = asyncio.create_task(load.run())
        await asyncio.wait_for(reached.wait(), LOAD_S)
        return task

    with BrokerProcess(tmp_path / "store", tmp_path / "processes") as broker:
        asyncio.run(work(broker))
        assert not ledger.refusals, f"{ledger.refusals}\n{broker.errors}"
        before = ledger.compare(*asyncio.run(read_everything(broker.namesrv())))
        assert before.problems == 0, f"{before}\n{broker.errors}"
        broker.kill()
    with BrokerProcess(tmp_path / "store", tmp_path / "processes") as broker:
        findings = ledger.compare(*asyncio.run(read_everything(broker.namesrv())))
        print(findings)
        assert findings.problems == 0, f"{findings}\n{broker.errors}"
        assert findings.acknowledged >= 2 * REQUESTS
        assert broker.terminate() == 0
