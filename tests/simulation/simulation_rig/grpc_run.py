"""One run of gRPC clients: groups of members of both protocols, producers, and trouble.

group  topic  members
G      N      push and simple consumers of gRPC, a pop consumer of remoting; some messages fail
O      F      push consumers of gRPC, ordered
X      X      a simple consumer of transactions
D      D      a push consumer of delayed messages
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from gantrymq.broker import BrokerServer
from gantrymq.client import Client
from gantrymq.errors import ClientError
from gantrymq.model.group import GroupConfig
from gantrymq.model.topic import TopicConfig
from gantrymq.world import World
from gantrymq_testing.simulated import (
    FaultyDelivery,
    SimulatedLoop,
    SimulatedNetwork,
    SimulatedProcess,
    Trace,
)
from simulation_rig.bugs import Bugs, problems_of
from simulation_rig.grpc_deliveries import Deliveries
from simulation_rig.grpc_members import GroupPlan, GrpcMember, Member, RemotingMember, SimpleMember
from simulation_rig.grpc_producing import EARLY_MS, TOPICS, GrpcProducer, RemotingProducer, Sent
from simulation_rig.kinds import SETTINGS
from simulation_rig.machines import broker, name_server
from simulation_rig.trouble import Trouble

NAMESRV_HOST, BROKER_HOST = "10.0.0.1", "10.0.1.1"
NAMESRV = f"{NAMESRV_HOST}:9876"
LIMIT_S = 7200.0
CATCH_UP_S = 400.0  # the longest invisible time and the life of a client without heartbeats, and some more
FAULTS = ("cut", "part", "slow", "refuse", "stop", "crash", "crash_at_call")
JUMPS_MS = (1_000, 30_000, 300_000)
SUPERVISION_S = 2.0
RETRIES = 4
KINDS = {"push": GrpcMember, "simple": SimpleMember, "remoting": RemotingMember}


@attrs.frozen
class GrpcPlan:
    """A run."""

    seed: int
    members: dict[str, tuple[str, ...]]  # kinds by group
    sends: int
    producers: int
    pause_s: float  # between two faults, sends or moves, at most
    faults: tuple[str, ...]
    moves: int  # members that leave or are killed, and another one joins
    late: float
    failing: float
    settings: dict[str, Any]


def draw(seed: int) -> GrpcPlan:
    """The plan of *seed*."""
    rng = random.Random(f"{seed}/gRPC plan")
    possible = (*FAULTS, "jump") if rng.random() < 0.25 else FAULTS
    mixed = ("push", "push", "simple", "remoting")
    return GrpcPlan(
        seed=seed,
        members={
            "G": ("push", *rng.choices(mixed, k=rng.randint(1, 3))),
            "O": ("push",) * rng.randint(1, 3),
            "X": ("simple",),
            "D": ("push",),
        },
        sends=rng.randint(10, 30),
        producers=rng.randint(1, 2),
        pause_s=rng.choice((0.3, 2.0, 8.0)),
        faults=tuple(rng.choices(possible, k=rng.randint(0, 6))),
        moves=rng.randint(0, 5),
        late=rng.choice((0.0, 0.01, 0.05)),
        failing=rng.choice((0.0, 0.15)),
        settings={
            "store": "mmap",
            "flushDiskType": rng.choice(("SYNC_FLUSH", "ASYNC_FLUSH")),
            "mappedFileSizeCommitLog": 1 << 20,
            "mappedFileSizeConsumeQueue": 20 * 1000,
            "listeners": f"sdk=grpc://{BROKER_HOST}:8081",
        },
    )


@attrs.define
class Report:
    """The result of a seed."""

    plan: GrpcPlan
    sent: int = 0
    delivered: int = 0
    repeated: int = 0
    starts: int = 0  # of the broker
    problems: list[str] = attrs.field(factory=list)


def run(seed: int, trace: Trace | None = None) -> Report:
    """Run *seed* and check the result; problems are in the report, nothing is raised."""
    plan = draw(seed)
    report = Report(plan)
    report.problems += problems_of(
        seed,
        lambda world, delivery, bugs: Run(plan, world, delivery, bugs, report).main(),
        late=plan.late,
        limit_s=LIMIT_S,
        trace=trace,
    )
    return report


class Steps(Trouble):
    """Trouble with small steps of the broker's clock: a message is invisible by the wall clock."""

    async def _jump(self) -> None:
        self._broker.jump(self._random.choice(JUMPS_MS) * self._random.choice((-1, 1)))


class Group:
    """One group, and its members over time."""

    def __init__(
        self, world: World, plan: GroupPlan, kinds: tuple[str, ...], deliveries: Deliveries, numbers: Any
    ) -> None:
        self.deliveries = deliveries
        self.plan = plan
        self.all: list[Member] = []
        self.present: list[Member] = []
        self._world = world
        self._kinds = list(kinds)
        self._numbers = numbers
        for kind in kinds:
            self._join(kind)

    def _join(self, kind: str) -> None:
        number = next(self._numbers)
        seeded = random.Random(f"{self.plan.seed}/member {number}")
        member = KINDS[kind](self._world, number, self.plan, self.deliveries, seeded)
        self.all.append(member)
        self.present.append(member)

    async def replace(self, seeded: random.Random) -> None:
        """End a member, and start another one of its kind."""
        place = seeded.randrange(len(self.present))
        member = self.present.pop(place)
        kind = self._kinds.pop(place)
        if seeded.random() < 0.5:
            member.kill()
        else:
            await member.leave()
        await self._world.clock.sleep(seeded.uniform(0, 3))
        self._kinds.append(kind)
        self._join(kind)

    async def end(self) -> None:
        """End all members in order."""
        for member in self.present:
            await member.leave()

    def judge(self, sent: dict[bytes, Sent], dead: set[bytes]) -> Iterator[str]:
        """Problems found, as sentences."""
        yield from self.deliveries.bugs
        for body, text in self.deliveries.repeats:
            if body in sent and sent[body].copies == 1 and body not in self.deliveries.copied:
                yield text
        for member in self.all:
            yield from member.bugs
        for body, popped_ms in self.deliveries.first_ms.items():
            if body not in sent or TOPICS[sent[body].kind] != self.plan.topic:
                yield f"{self.plan.name} received {body[:40]!r}, which nobody sent there"
            elif not sent[body].commits:
                yield f"{self.plan.name} received {body[:40]!r}, which was rolled back"
            elif popped_ms < sent[body].due_ms - EARLY_MS:
                yield f"{self.plan.name} received {body[:40]!r} at {popped_ms}, due at {sent[body].due_ms}"
        for each in self.missing(sent, dead):
            yield f"{self.plan.name} has not consumed {each!r}"
        for body in dead:
            count = self.deliveries.counts[body]
            if not self.plan.failures(body) and count <= RETRIES:
                yield f"{body[:40]!r} is a dead letter of {self.plan.name} after {count} deliveries"

    def missing(self, sent: dict[bytes, Sent], dead: set[bytes]) -> list[bytes]:
        """Messages that are neither consumed nor dead."""
        done = self.deliveries.acked_ms.keys() | self.deliveries.unanswered | dead
        wanted = (each for each in sent.values() if each.stored and each.commits)
        return [each.body[:40] for each in wanted if TOPICS[each.kind] == self.plan.topic and each.body not in done]


class Run:
    """The parts of one run."""

    def __init__(self, plan: GrpcPlan, world: World, delivery: FaultyDelivery, bugs: Bugs, report: Report) -> None:
        self._loop = loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop) and isinstance(world.network, SimulatedNetwork)
        loop.set_exception_handler(bugs.on_exception)
        delivery.attach(world.network, loop.time)
        self._plan = plan
        self._world = world
        self._report = report
        self._name_server = name_server(world, NAMESRV_HOST)
        self._broker = broker(world, BROKER_HOST, NAMESRV, {**SETTINGS, **plan.settings})
        self._sent: dict[bytes, Sent] = {}
        given = plan.seed, self._sent, plan.sends, plan.pause_s
        self._producers = [
            *(GrpcProducer(n, BROKER_HOST, *given) for n in range(plan.producers)),
            RemotingProducer(*given),
        ]
        self._processes = [
            SimulatedProcess(world, loop, f"10.0.2.{number + 1}", 2 + number) for number in range(plan.producers + 2)
        ]
        self._trouble = Steps(plan, world.clock, delivery, [self._name_server], self._broker, self._processes)
        self._random = random.Random(f"{plan.seed}/moves")
        self._groups: list[Group] = []

    async def main(self) -> None:
        """Start from an empty cluster and end with an empty one."""
        for machine in (self._name_server, self._broker):
            machine.start()
            await machine.ready()
        self._make_topics()
        numbers = iter(range(10**6))
        for name, kinds in self._plan.members.items():
            topic = {"G": "N", "O": "F"}.get(name, name)
            ordered = name == "O"
            plan = GroupPlan(name, topic, self._plan.seed, BROKER_HOST, ordered=ordered, failing=self._plan.failing)
            deliveries = Deliveries(
                name, self._world.clock, self._broker.ends_ms, ordered=ordered, jumps="jump" in self._plan.faults
            )
            self._groups.append(Group(self._world, plan, kinds, deliveries, numbers))
        await asyncio.sleep(10)  # a new group starts at the end
        producing = [
            process.run(each.run(process.world, NAMESRV))
            for process, each in zip(self._processes, self._producers, strict=False)
        ]
        moving, supervising = asyncio.ensure_future(self._move()), asyncio.ensure_future(self._supervise())
        await self._trouble.run()
        await asyncio.wait([moving, *(asyncio.ensure_future(each.done.wait()) for each in self._producers)])
        moving.result()
        supervising.cancel()
        self._trouble.repair()
        await self._within(CATCH_UP_S, "the broker", lambda: self._broker.server is not None)
        back_ms = max(-self._broker.ahead_ms, 0) + (sum(JUMPS_MS) if "jump" in self._plan.faults else 0)
        dead = await self._consumed(CATCH_UP_S + back_ms / 1000)
        await self._judge(dead)
        for producer in self._producers:
            producer.close()
        for group in self._groups:
            await group.end()
        await asyncio.wait(producing)
        for task in producing:
            task.result()
        await self._wind_up()

    def _make_topics(self) -> None:
        server = self._broker.server
        assert isinstance(server, BrokerServer)
        for kind, name in TOPICS.items():
            server.tables.topics.put(TopicConfig(name, 2, 2, attributes={"message.type": kind.upper()}))
        for name in self._plan.members:
            server.tables.groups.put(
                GroupConfig(name, consume_message_orderly=name == "O", retry_max_times=RETRIES if name == "G" else 16)
            )

    async def _supervise(self) -> None:
        """Start a broker that was killed, as an operating system does."""
        while True:
            await asyncio.sleep(SUPERVISION_S)
            self._broker.start()

    async def _move(self) -> None:
        for _ in range(self._plan.moves):
            await asyncio.sleep(self._random.uniform(0, 2 * self._plan.pause_s))
            await self._random.choice(self._groups).replace(self._random)

    async def _within(self, seconds: float, what: str, holds: Callable[[], bool]) -> None:
        deadline = self._loop.time() + seconds
        while not holds():
            assert self._loop.time() < deadline, f"waited {seconds:g} virtual seconds for {what}"
            await asyncio.sleep(0.25)

    async def _consumed(self, seconds: float) -> dict[str, set[bytes]]:
        """Wait until all messages are consumed or dead, and return the dead ones by group."""
        deadline, sent = self._loop.time() + seconds, self._sent
        while True:
            dead = await self._processes[-1].run(self._dead_letters())
            if self._loop.time() > deadline or not any(
                group.missing(sent, dead[group.plan.name]) for group in self._groups
            ):
                return dead
            await asyncio.sleep(5)

    async def _dead_letters(self) -> dict[str, set[bytes]]:
        async with Client(NAMESRV, world=self._processes[-1].world) as client:
            found: dict[str, set[bytes]] = {}
            for group in self._groups:
                name = group.plan.name
                found[name] = set()
                server = self._broker.server
                if not isinstance(server, BrokerServer) or server.tables.topics.get(f"%DLQ%{name}") is None:
                    continue
                reader = client.reader(group="AUDIT")
                try:
                    for queue in await reader.queues(f"%DLQ%{name}"):
                        offset, end = await reader.min_offset(queue), await reader.max_offset(queue)
                        while offset < end:
                            pulled = await reader.pull(queue, offset)
                            found[name] |= {bytes(each.body) for each in pulled.messages}
                            offset = pulled.next_offset
                except ClientError:  # the route is not there yet
                    continue
            return found

    async def _judge(self, dead: dict[str, set[bytes]]) -> None:
        report, sent = self._report, self._sent
        report.sent = len(sent)
        for producer in self._producers:
            report.problems += producer.bugs
        for group in self._groups:
            report.problems += group.judge(sent, dead[group.plan.name])
            report.problems += group.deliveries.late()
            report.delivered += sum(group.deliveries.counts.values())
            report.repeated += sum(count - 1 for count in group.deliveries.counts.values())

    async def _wind_up(self) -> None:
        """Stop everything, and check that nothing is left open."""
        await self._broker.stop()
        self._report.starts = self._broker.starts
        await self._name_server.stop()
        await asyncio.sleep(10)
        for machine in (self._name_server, self._broker):
            self._report.problems += machine.leaks
        members = [member.process for group in self._groups for member in group.all]
        for process in (*self._processes, *members):
            left = [task.get_name() for task in process.tasks()] if process.alive else []
            if left:
                self._report.problems.append(f"{process.world.host_name} keeps {left}")
        assert isinstance(self._world.network, SimulatedNetwork)
        if links := self._world.network.links():
            self._report.problems.append(f"connections are left: {links}")
        await self._world.workers.close()
