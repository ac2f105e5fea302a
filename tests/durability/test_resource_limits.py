"""A broker that is suspended, a file system that fills and is freed, and one that is read-only.

SIGSTOP is sent under load and SIGCONT later: unanswered messages are stored once or not at all, and work continues. The
file systems are tmpfs, mounted for the test; without permission to mount they are skipped.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from durability_rig.broker_process import BrokerProcess
from durability_rig.ledger import Ledger
from durability_rig.load import Load, make_load_topics, read_everything
from durability_rig.small_disks import SmallDisk, small_disk
from polling import until

from gantrymq.client import Client, Producer
from gantrymq.errors import GantryError

REQUESTS = 150
LOAD_S = 120.0
MOUNT_BYTES = 24 * 1024 * 1024
BALLAST_BYTES = 14 * 1024 * 1024
RESUME_S = 10.0
SEND_S = 1.0  # so long a producer tries a broker that is not ready
KEEP_ALL = {"cleanFileForciblyEnable": "false"}  # retention deletes nothing, however full the disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals of POSIX, and mounts")


@pytest.mark.parametrize("seconds", [2, pytest.param(30, marks=pytest.mark.long)])
def test_a_broker_that_stood_still_loses_and_repeats_nothing(tmp_path: Path, seconds: float) -> None:
    ledger = Ledger()

    async def work(broker: BrokerProcess) -> None:
        namesrv = broker.namesrv()
        await make_load_topics(namesrv, ledger)
        for number, pauses in enumerate((True, False)):
            load = await loaded(broker, namesrv, number, pauses=pauses)
            if pauses:
                await asyncio.sleep(seconds)  # real time: length of the pause
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
                    broker.pause()  # requests in progress are answered late, or never
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


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallDisk]:
    """A folder on its own file system."""
    with small_disk(tmp_path / "small", MOUNT_BYTES) as disk:
        yield disk


def test_a_disk_that_fills_refuses_with_a_sentence_and_takes_messages_again_once_there_is_room(
    small: SmallDisk, tmp_path: Path
) -> None:
    ledger, rng = Ledger(), random.Random(1)
    small.take(BALLAST_BYTES)
    refusals: list[str] = []

    async def send(producer: Producer) -> bool:
        number, message = ledger.write("LoadA", rng, size=rng.randint(1000, 20_000))
        try:
            result = await producer.send(message, timeout_s=SEND_S)
        except GantryError as error:
            if "no answer" in str(error):  # a busy machine; stored or not, it was not acknowledged
                return True
            refusals.append(str(error))
            return False
        ledger.acknowledge("one", [number], result)
        return True

    async def work(broker: BrokerProcess) -> int:
        namesrv = broker.namesrv()
        await make_load_topics(namesrv, ledger)
        async with Client(namesrv) as client, client.producer("small", retries=0) as producer:
            while await send(producer):
                assert len(ledger.messages) < 20_000, "the disk did not fill"
            for _ in range(5):
                await send(producer)
            full = ledger.acknowledged
            small.free()
            await until(lambda: send(producer), "accepted send", RESUME_S, lambda: refusals[-1])
            for _ in range(100):
                assert await send(producer), refusals[-1]
            return full

    with BrokerProcess(small.folder / "store", tmp_path / "processes", KEEP_ALL) as broker:
        full = asyncio.run(work(broker))
        broker.kill()
    assert len(refusals) >= 6
    assert all("No space left" in refusal or "full" in refusal or "free" in refusal for refusal in refusals), refusals
    with BrokerProcess(small.folder / "store", tmp_path / "processes", KEEP_ALL) as broker:
        findings = ledger.compare(*asyncio.run(read_everything(broker.namesrv())))
        print(f"{full} acknowledged until the disk was full, {len(refusals)} refused; {findings}")
        assert findings.problems == 0, f"{findings}\n{broker.errors}"
        assert findings.acknowledged > full + 50
        assert broker.terminate() == 0, broker.errors


def test_a_store_on_a_read_only_file_system_is_refused_and_stays_as_it_is(small: SmallDisk, tmp_path: Path) -> None:
    ledger = Ledger()

    async def work(namesrv: str) -> None:
        await make_load_topics(namesrv, ledger)
        async with Client(namesrv) as client, client.producer("small", retries=0) as producer:
            number, message = ledger.write("LoadA", random.Random(1))
            ledger.acknowledge("one", [number], await producer.send(message))

    with BrokerProcess(small.folder / "store", tmp_path / "processes") as broker:
        asyncio.run(work(broker.namesrv()))
        assert broker.terminate() == 0
    before = contents(small.folder)
    small.remount("ro")
    with BrokerProcess(small.folder / "store", tmp_path / "processes") as broker:
        assert broker.exit_code() == 1
        assert f"the store's folder {small.folder / 'store'} cannot be written" in broker.errors
        assert "Traceback" not in broker.errors
    assert contents(small.folder) == before
    small.remount("rw")
    with BrokerProcess(small.folder / "store", tmp_path / "processes") as broker:
        findings = ledger.compare(*asyncio.run(read_everything(broker.namesrv())))
        assert (findings.problems, findings.found) == (0, 1), f"{findings}\n{broker.errors}"


def contents(folder: Path) -> dict[Path, bytes]:
    """Every file below *folder*."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
