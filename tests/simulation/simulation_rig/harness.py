"""One run: machines up, producers and consumers at work while trouble happens, repair, catching up, judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import attrs

from gantrymq.broker import BrokerServer
from gantrymq.client import Client, PullStatus, Reader
from gantrymq.errors import ClientError, NoRoute
from gantrymq.model.queue import Queue
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
from simulation_rig.consuming import Following, Seen
from simulation_rig.kinds import SETTINGS, TOPICS, Kinds
from simulation_rig.machines import Machine, broker, name_server
from simulation_rig.oracle import Log, judge_consumer, judge_log
from simulation_rig.plan import Plan, draw
from simulation_rig.producing import Sending
from simulation_rig.sharing import Sharing
from simulation_rig.trouble import Trouble

BROKER = "10.0.1.1"
LIMIT_S = 3600.0
CATCH_UP_S = 300.0
STEP_S = 0.25


@attrs.define
class Report:
    """The result of a seed."""

    plan: Plan
    sent: int = 0
    acknowledged: int = 0
    stored: int = 0
    odd: int = 0  # sent by the client of every other kind
    shared: int = 0  # consumed by the group
    repeated: int = 0  # of them more than once
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


class Run:
    """The parts of one run."""

    def __init__(self, plan: Plan, world: World, delivery: FaultyDelivery, bugs: Bugs, report: Report) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop) and isinstance(world.network, SimulatedNetwork)
        loop.set_exception_handler(bugs.on_exception)
        delivery.attach(world.network, loop.time)
        self._plan = plan
        self._world = world
        self._loop = loop
        self._report = report
        self._name_servers = [name_server(world, f"10.0.0.{number + 1}") for number in range(plan.name_servers)]
        self._namesrv = ";".join(f"{each.host}:9876" for each in self._name_servers)
        self._broker = broker(world, BROKER, self._namesrv, {**SETTINGS, **plan.settings})
        self._topics = list(plan.topics)
        self._sending = [Sending(n, each, self._topics, plan.seed) for n, each in enumerate(plan.producers)]
        self._following = [
            Following(n, each, self._topics, plan.seed, self._flushed) for n, each in enumerate(plan.consumers)
        ]
        self._kinds = [Kinds(plan.kinds, BROKER, plan.seed)] if plan.kinds is not None else []
        self._sharing = [Sharing(plan.group, self._topics, plan.seed, world)] if plan.group is not None else []
        count = len(self._sending) + len(self._following) + len(self._kinds) + 1
        self._clients = [SimulatedProcess(world, loop, f"10.0.2.{number + 1}", 2 + number) for number in range(count)]
        self._trouble = Trouble(plan, world.clock, delivery, self._name_servers, self._broker, self._clients)

    async def main(self) -> None:
        """Start from an empty cluster and end with an empty one."""
        for machine in (*self._name_servers, self._broker):
            machine.start()
            await machine.ready()
        await self._make_topics()
        producing = self._begin(self._sending, self._clients)
        following = self._begin(self._following, self._clients[len(producing) :])
        others = self._begin(self._kinds, self._clients[len(producing) + len(following) :])
        sharing = [asyncio.ensure_future(each.run(self._namesrv)) for each in self._sharing]
        await self._trouble.run()
        await asyncio.wait(producing)
        self._trouble.repair()
        for each in self._sharing:
            each.settle()
        await self._within(CATCH_UP_S, "the servers to start", self._is_up)
        await self._within(CATCH_UP_S, "every kind of message", lambda: all(task.done() for task in others))
        log = await self._read_log()
        await self._within(CATCH_UP_S, "consumers to catch up", lambda: self._caught_up(log, following))
        await self._within(
            CATCH_UP_S, "the group to catch up", lambda: all(each.consumed(log) for each in self._sharing)
        )
        for each in self._sharing:
            each.end()
        for task in following:
            task.cancel()
        await asyncio.wait([*following, *sharing])
        for task in (*producing, *following, *others, *sharing):
            if not task.cancelled():
                task.result()
        await self._judge(log)
        await self._wind_up(log)

    def _begin(
        self, work: list[Sending] | list[Following] | list[Kinds], clients: list[SimulatedProcess]
    ) -> list[asyncio.Task[None]]:
        return [client.run(each.run(client.world, self._namesrv)) for each, client in zip(work, clients, strict=False)]

    async def _make_topics(self) -> None:
        """Create the topics that the first message does not create; return when clients find them."""
        assert isinstance(self._broker.server, BrokerServer)
        for name, queues in self._plan.topics.items():
            if queues:
                topic = TopicConfig(name, read_queues=queues, write_queues=queues)
                self._broker.server.tables.topics.put(topic)
        for name in sorted(set(TOPICS.values())):
            self._broker.server.tables.topics.put(TopicConfig(name, read_queues=1, write_queues=1))
        await self._read_log()

    def _flushed(self) -> int | None:
        """How far the running broker has synced its log; None with asynchronous flush."""
        server = self._broker.server
        if not isinstance(server, BrokerServer) or self._plan.settings["flushDiskType"] != "SYNC_FLUSH":
            return None
        return server.store.state().flushed_offset

    async def _within(self, seconds: float, what: str, holds: Callable[[], bool]) -> None:
        deadline = self._loop.time() + seconds
        while not holds():
            assert self._loop.time() < deadline, f"waited {seconds:g} virtual seconds for {what}"
            await asyncio.sleep(STEP_S)

    def _is_up(self) -> bool:
        machines: tuple[Machine, ...] = (*self._name_servers, self._broker)
        for machine in machines:
            machine.start()
        return all(machine.server is not None for machine in machines)

    def _caught_up(self, log: Log, following: list[asyncio.Task[None]]) -> bool:
        ends: dict[tuple[str, int], int] = {}
        for topic, queue, offset in log:
            ends[topic, queue] = max(ends.get((topic, queue), 0), offset + 1)
        done = any(task.done() for task in following)
        return done or all(each.at.get(queue, 0) >= end for each in self._following for queue, end in ends.items())

    async def _read_log(self) -> Log:
        """Read all messages as a late client would; faults still in progress may end it early."""
        deadline = self._loop.time() + CATCH_UP_S
        while True:
            try:
                return await self._as_auditor(self._read_with)
            except ClientError:
                if self._loop.time() > deadline:
                    raise
                await asyncio.sleep(STEP_S)

    async def _as_auditor(self, work: Callable[[Reader], Awaitable[Log]]) -> Log:
        client = self._clients[-1]

        async def main() -> Log:
            async with (
                Client(self._namesrv, world=client.world) as consumer_client,
                consumer_client.reader(group="AUDIT") as consumer,
            ):
                return await work(consumer)

        return await client.run(main())

    async def _read_with(self, consumer: Reader) -> Log:
        log: Log = {}
        for topic in self._topics:
            for queue in await self._queues(consumer, topic):
                offset, end = await consumer.min_offset(queue), await consumer.max_offset(queue)
                while offset < end:
                    found = await consumer.pull(queue, offset)
                    assert found.status is PullStatus.FOUND, f"{found.status} at {offset} of {end} in {queue}"
                    for each in found.messages:
                        place = (topic, queue.queue_id, each.queue_offset)
                        log[place] = Seen(bytes(each.body), each.tags or "", each.log_offset)
                    offset = found.next_offset
        return log

    async def _queues(self, consumer: Reader, topic: str) -> tuple:
        """The queues of the topic; empty if no message got through to create it."""
        deadline = self._loop.time() + 60
        while True:
            try:
                return await consumer.queues(topic)
            except NoRoute:
                server = self._broker.server
                assert isinstance(server, BrokerServer)
                if server.tables.topics.get(topic) is None:
                    return ()
                assert self._loop.time() < deadline, f"{topic} has no route although the broker has it"
                await asyncio.sleep(1)

    async def _judge(self, log: Log) -> None:
        report, sent = self._report, [each for sending in self._sending for each in sending.sent]
        report.sent, report.stored = len(sent), len(log)
        report.acknowledged = sum(each.place is not None for each in sent)
        for sending in self._sending:
            report.problems += sending.bugs
        report.problems += judge_log(sent, log)
        for kinds in self._kinds:
            report.odd = len(kinds.sent)
            report.problems += kinds.judge()
        for sharing in self._sharing:
            report.shared = sum(sharing.counts.values()) + sum(sharing.elsewhere.values())
            report.repeated = report.shared - len(sharing.counts) - len(sharing.elsewhere)
            report.problems += sharing.judge(log)
        for plan, following in zip(self._plan.consumers, self._following, strict=True):
            words = frozenset() if plan.expression == "*" else frozenset(plan.expression.split(" || "))
            report.problems += following.bugs
            report.problems += judge_consumer(following, words, log)
        self._judge_offsets()

    def _judge_offsets(self) -> None:
        """Check that no group has committed more than the queues hold."""
        server = self._broker.server
        assert isinstance(server, BrokerServer)
        for following in self._following:
            for topic, queue in following.at:
                committed = server.tables.offsets.committed(following.group, Queue(topic, queue))
                end = server.store.bounds(Queue(topic, queue)).max_offset
                if committed is not None and committed > end:
                    self._report.problems.append(f"{following.group} committed {committed} in {topic}/{queue} of {end}")

    async def _wind_up(self, log: Log) -> None:
        """Stop; with files, start once more and find the same messages; then check that nothing is left open."""
        await self._broker.stop()
        if self._plan.store == "mmap":
            self._broker.start()
            await self._broker.ready()
            again = await self._read_log()
            if again != log:
                self._report.problems.append(
                    f"after a clean stop the log differs: {set(log.items()) ^ set(again.items())}"
                )
            await self._broker.stop()
        self._report.starts = self._broker.starts
        for machine in self._name_servers:
            await machine.stop()
        await asyncio.sleep(10)
        for machine in (*self._name_servers, self._broker):
            self._report.problems += machine.leaks
        for client in (*self._clients, *(each for sharing in self._sharing for each in sharing.processes)):
            if not client.alive:
                continue
            left = [task.get_name() for task in client.tasks()]
            if left or client.network.open_connections:
                self._report.problems.append(
                    f"{client.world.host_name} keeps {left} and {client.network.open_connections} connections"
                )
        assert isinstance(self._world.network, SimulatedNetwork)
        if links := self._world.network.links():
            self._report.problems.append(f"connections are left: {links}")
        await self._world.workers.close()
