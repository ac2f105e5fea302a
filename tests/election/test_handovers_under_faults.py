"""Operators change the master again and again while other things fail: the same holds as in `test_histories`."""

import asyncio

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("gantrymq_storage_faults")

import history_table
from elected_hosts import ElectedHosts

from gantrymq_replication.election.engine import EngineError
from gantrymq_testing.simulated import ProcessKilled

done = []  # handovers of a run that succeeded


class HandingOver(ElectedHosts):
    """Asks a master to hand over beside each fault, and once more a moment later."""

    async def trouble(self, *kinds):
        before = self._ask()
        await super().trouble(*kinds)
        await asyncio.gather(*before, *self._ask())

    def _ask(self):
        masters = [each for each in self.all if each.elected is not None and each.elected.is_master]
        return [asyncio.ensure_future(self._hand_over(each, self.pair.chance.random() < 0.7)) for each in masters]

    async def _hand_over(self, host, waits):
        await self.pair.world.clock.sleep(self.pair.chance.uniform(0, 0.5))
        if not host.runs or (election := host.service.election) is None:
            return
        try:
            await host.process.run(election.hand_over(waits=waits))
        except (EngineError, ProcessKilled, asyncio.CancelledError):
            return
        done.append(host.name)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_nothing_is_lost_by_handovers(seed, monkeypatch):
    done.clear()
    monkeypatch.setattr(history_table, "ElectedHosts", HandingOver)
    tally = history_table.run(seed, count=8)
    print(len(done), "handovers", tally)
    assert tally.acknowledged > 10
