"""Causes the faults of the plan one after the other, and repairs everything at the end."""

from __future__ import annotations

import random

from gantrymq.world import Clock
from gantrymq_testing.simulated import FaultyDelivery, SimulatedProcess
from simulation_rig.machines import Machine
from simulation_rig.plan import JUMPS_MS, Plan


class Trouble:
    """Faults of one run."""

    def __init__(
        self,
        plan: Plan,
        clock: Clock,
        delivery: FaultyDelivery,
        name_servers: list[Machine],
        broker: Machine,
        clients: list[SimulatedProcess],
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._delivery = delivery
        self._name_servers = name_servers
        self._broker = broker
        self._clients = clients
        self._random = random.Random(f"{plan.seed}/trouble")
        self._hosts = [*(each.host for each in (*name_servers, broker)), *(c.world.host_name for c in clients)]

    async def run(self) -> None:
        """All faults, with pauses."""
        for fault in self._plan.faults:
            await self._clock.sleep(self._random.uniform(0, self._plan.pause_s))
            await getattr(self, f"_{fault}")()

    def repair(self) -> None:
        """Restore a fast network and start every server."""
        self._delivery.heal()
        if self._broker.process is not None:
            self._broker.process.kill_at_file_call(0)
        for machine in (*self._name_servers, self._broker):
            machine.start()

    async def _cut(self) -> None:
        self._delivery.cut_some(self._random.choice((0.2, 0.5, 1.0)))

    async def _part(self) -> None:
        self._delivery.part(*self._random.sample(self._hosts, 2), self._random.uniform(0.5, 8))

    async def _slow(self) -> None:
        self._delivery.slow_down(self._random.choice(self._hosts), self._random.uniform(1, 5))

    async def _refuse(self) -> None:
        self._delivery.refuse(self._random.choice(self._hosts), self._random.uniform(0.5, 4))
        self._delivery.cut_some(0.3)

    async def _jump(self) -> None:
        jump_ms = self._random.choice(JUMPS_MS) * self._random.choice((-1, 1))
        machine = self._random.choice((*self._name_servers, self._broker, *self._clients))
        if isinstance(machine, Machine):
            machine.jump(jump_ms)
        else:
            machine.ahead_ms += jump_ms

    async def _stop(self) -> None:
        await self._broker.stop()
        await self._later(self._broker)

    async def _crash(self) -> None:
        self._broker.crash()
        await self._later(self._broker)

    async def _crash_at_call(self) -> None:
        if self._broker.process is not None:
            self._broker.process.kill_at_file_call(self._random.choice((1, 3, 10, 40)))
        await self._later(self._broker)

    async def _name_server(self) -> None:
        machine = self._random.choice(self._name_servers)
        machine.crash()
        await self._later(machine)

    async def _later(self, machine: Machine) -> None:
        await self._clock.sleep(self._random.choice((0.01, 0.5, 3.0)))
        machine.start()
