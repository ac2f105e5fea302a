"""A disk that runs full under a broker, gets room again, and a broker that is killed after it."""

from __future__ import annotations

import random

import pytest
from crash_rig.ledger import Ledger
from crash_rig.lives import Life
from crash_rig.oracle import judge
from crash_rig.runs import START_MS
from crash_rig.starts import NEW, Starts
from crash_rig.workload import Day

from gantrymq.model.queue import Queue
from gantrymq.world import World
from gantrymq_storage_faults import FaultPlan, Machine
from gantrymq_testing.simulated import simulate

ROOM_BYTES = 20 * 4096
SENDS = 400
KEEP = {"cleanFileForciblyEnable": False, "diskSpaceWarningLevelRatio": 100}  # delete nothing, refuse at the last byte


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_before_between_and_after_is_there(starts: Starts, seed: int, power: bool) -> None:
    ledger, start = Ledger(), starts.get(NEW)
    refusals = ledger.refusals

    async def main(world: World) -> None:
        disk = Machine(start.disk(world.clock.now_ms))
        life = Life(world, disk, start, FaultPlan(seed=seed, room_bytes=ROOM_BYTES), KEEP)

        async def fill(life: Life) -> None:
            day, rng = Day(life, ledger, seed), random.Random(seed)
            await day.make_topic("CrashA")
            for number in range(SENDS):
                sent = ledger.write(Queue("CrashA", rng.randrange(3)), rng)
                before = len(refusals)
                await day.put(sent)
                if len(refusals) > before:
                    if len(refusals) == 20:
                        life.files.room_bytes = 1 << 30
                        freed = number
                    await world.clock.sleep(0.05)
            assert len(refusals) < 40, refusals[-1]  # it takes messages again within a second
            assert number - freed > 100
            life.kill()

        assert not await life.run(fill)
        if power:
            disk.power_cut(life.files.plan)
        after = Life(world, disk, start, None, KEEP)

        async def look(life: Life) -> None:
            findings = await judge(life, ledger, {}, life.said)
            assert not findings.problems, findings.problems

        assert await after.run(look)
        disk.power_cut()
        last = Life(world, disk, start, None, KEEP)
        assert await last.run(look)

    simulate(seed, main, start_ms=START_MS)
    assert len(refusals) >= 20
    assert all("No space left on device" in refusal for refusal in refusals), refusals[0]
    assert len(ledger.acknowledged) > SENDS - 40
