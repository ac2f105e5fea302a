"""Hosts with brokers that are elected by an engine, in a simulated world: faults, clients, and what must hold.

Clients are processes of their own on the simulated network. What they know is a `History`, which is compared with the
log of each new master as soon as it serves, and with all logs at the end. `Tally` counts for the table of
`history_table`.
"""

import asyncio
import statistics
from collections import Counter
from contextlib import suppress
from pathlib import Path

import attrs
from ha_hosts import BROKER, QUEUES, TOPIC, Host
from ha_pairs import end, log_of, service
from message_history import History, Place, body_of, records_in
from networked_engines import ENGINE, ControllerModel, NetworkedEtcd

from gantrymq.broker import BrokerServer
from gantrymq.client import Client, Message, PullStatus
from gantrymq.config import Settings
from gantrymq.errors import GantryError
from gantrymq.interfaces import GetLimit
from gantrymq.model.queue import MessageQueue, Queue
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_replication.election.service import ElectionService
from gantrymq_testing.simulated import ProcessKilled, SimulatedProcess

NAMES, CLIENTS = "10.0.0.9", "10.0.1.1"
LISTEN_PORT = 10911
SENDERS = 6
LOOK_S = 0.01
ELECTED = {
    "enableControllerMode": True,
    "minInSyncReplicas": 2,
    "etcdLeaseSeconds": 3,
    "etcdEndpoints": f"{ENGINE}:2379",
    "controllerAddr": f"{ENGINE}:{ControllerModel.PORT}",
    "controllerHeartBeatTimeoutMills": 3000,
    "listenPort": LISTEN_PORT,
    "slaveReadEnable": True,
    "slaveTimeout": 1000,
}
POWER = "power cut"
TROUBLES = (
    *("kill", POWER, "pause", "partition of two brokers", "one-way partition of two brokers"),
    *("partition from the engine", "one-way partition from the engine", "partition from all brokers and the engine"),
    *("partition from the clients", "cut connections", "slow network", "clock step", "slow disk"),
    *("lost answers of the engine", "engine down"),
)


@attrs.define
class Tally:
    """What one run, or several, counted."""

    runs: int = 0
    acknowledged: int = 0
    unsure: int = 0
    seen: int = 0
    lost: int = 0
    refused: int = 0  # runs that ended with a broker that does not follow, because its master lacks messages
    epochs: int = 0
    gaps_s: list[float] = attrs.field(factory=list)  # times without a broker that accepts messages
    troubles: Counter[str] = attrs.field(factory=Counter)

    def add(self, other):
        self.runs += other.runs
        self.acknowledged += other.acknowledged
        self.unsure += other.unsure
        self.seen += other.seen
        self.lost += other.lost
        self.refused += other.refused
        self.epochs += other.epochs
        self.gaps_s += other.gaps_s
        self.troubles.update(other.troubles)

    @property
    def median_s(self):
        return statistics.median(self.gaps_s) if self.gaps_s else 0.0


class ElectedHost(Host):
    """A host whose broker takes part in the election, with the name server at NAMES."""

    async def begin(self):
        cluster = self.cluster
        cluster.settings.set("namesrvAddr", f"{NAMES}:9876", "the test")
        cluster._broker = BrokerServer(cluster.world, cluster.settings, cluster.plugins)
        await cluster.server.start()

    @property
    def service(self):
        found = service(self.cluster, ElectionService)
        return found.elected or found

    @property
    def elected(self):
        return self.service.machine if self.runs else None

    @property
    def epochs(self):
        """The epochs with records, each with its start. Only a master knows those without."""
        entries = self.service.log.epochs.entries
        ends = [*(each.start for each in entries[1:]), end(self.cluster)]
        return [tuple(each) for each, stop in zip(entries, ends, strict=True) if each.start < stop]

    def accepts(self, now):
        machine = self.elected
        return machine is not None and machine.may_accept(now)


class ElectedHosts:
    """One set of brokers, the engine, a name server and clients."""

    def __init__(self, pair, delivery, seed, *, brokers, engine, flush, judged):
        self.pair, self.delivery, self.judged = pair, delivery, judged
        kind = NetworkedEtcd if engine == "etcd" else ControllerModel
        self.engine = kind(pair.world, delivery, seed)
        settings = {**ELECTED, "electionEngine": engine, "flushDiskType": flush}
        self.all = [ElectedHost(pair, f"10.0.0.{number}", seed, settings) for number in range(1, brokers + 1)]
        self.history, self.tally = History(), Tally(runs=1)
        self._tasks, self._number = [], 0
        self._judged = 0  # the newest epoch whose master was compared
        self._without_since = None  # since when no broker accepts messages

    # --- start and end ------------------------------------------------------------------------------------------------

    def process(self, host):
        return SimulatedProcess(self.pair.world, asyncio.get_running_loop(), host, 2)

    async def start(self):
        names = self.process(NAMES)
        folder = Path("/names")
        names.world.files.make_dirs(folder)
        values = {"bindAddress": NAMES, "listenPort": 9876}
        await names.run(NameServer(names.world, Settings(name_server_settings(folder), values)).start())
        await self.engine.start()
        for host in self.all:
            await host.start()
        await self.pair.until(lambda: self.master() is not None, "first master")
        self.clients = self.process(CLIENTS)
        self._client = Client(f"{NAMES}:9876", world=self.clients.world)
        await self.clients.run(self._client.start())
        self._tasks = [asyncio.ensure_future(self._watch_always())]
        self._tasks += [self.clients.run(self._send_always(number)) for number in range(SENDERS)]
        self._tasks += [self.clients.run(self._consume_always())]
        self._tasks += [asyncio.ensure_future(self._read_always(host)) for host in self.all]

    async def stop(self):
        """End the clients; what they were told last is noted."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        self.check()
        await self.clients.run(self._client.close())
        if self._without_since is not None:
            self.tally.gaps_s.append(self.now - self._without_since)
        self.tally.acknowledged, self.tally.unsure = len(self.history.acknowledged), self.history.unsure
        self.tally.seen = len(self.history.seen)

    def check(self):
        """Raise the error of a task that has one."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    @property
    def now(self):
        return self.pair.world.clock.monotonic()

    def master(self):
        """The host that accepts messages, if there is one."""
        return next((host for host in self.all if host.accepts(self.now)), None)

    # --- clients ------------------------------------------------------------------------------------------------------

    async def _send_always(self, number):
        clock = self.clients.world.clock
        producer = self._client.producer(f"p{number}", default_timeout_s=3.0, default_topic_queues=QUEUES)
        while True:
            await clock.sleep(0.04)
            self._number += 1
            body = f"{number}-{self._number}"
            begun = clock.monotonic()
            try:
                result = await producer.send(Message(TOPIC, body.encode() + b"." * (self._number * 37 % 3000)))
            except GantryError as error:
                self.history.unsure += 1
                self.last_error = error
            else:
                self.history.take(body, result, begun, clock.monotonic())

    async def _consume_always(self):
        clock, offsets = self.clients.world.clock, [0] * QUEUES
        reader = self._client.reader()
        while True:
            await clock.sleep(0.1)
            for queue_id in range(QUEUES):
                with suppress(GantryError):
                    result = await reader.pull(MessageQueue(TOPIC, BROKER, queue_id), offsets[queue_id])
                    if result.status is PullStatus.FOUND:
                        for each in result.messages:
                            self.history.saw(Place(BROKER, queue_id, each.queue_offset), body_of(each.body))
                        offsets[queue_id] = result.next_offset

    async def _read_always(self, host):
        """Read what a broker shows, whatever its role, as a consumer that knows its address."""
        offsets = [0] * QUEUES
        while True:
            await self.pair.world.clock.sleep(0.1)
            for queue_id in range(QUEUES):
                if not host.runs:
                    break
                try:
                    messages = host.cluster.broker.messages
                    got = await host.process.run(messages.get(Queue(TOPIC, queue_id), offsets[queue_id], GetLimit()))
                except (GantryError, AssertionError, ProcessKilled, asyncio.CancelledError):
                    if asyncio.current_task().cancelling():
                        raise
                    break
                for record in records_in(got.buffers):
                    self.history.saw(Place(BROKER, queue_id, record.queue_offset), body_of(record.body))
                    offsets[queue_id] = record.queue_offset + 1

    # --- what must hold -----------------------------------------------------------------------------------------------

    async def _watch_always(self):
        """Compare each new master with the history, and note when no broker accepts messages."""
        while True:
            for host in self.all:
                machine = host.elected
                if machine is not None and machine.is_master and machine.epoch > self._judged:
                    self._judged = machine.epoch
                    self.judge(host)
                if host.accepts(self.now):
                    problem = f"{host.name} acts as the master of epoch {machine.epoch} without a lease"
                    assert self.engine.lets(host.service.election.own_id, machine.epoch), problem
            if self.master() is not None:
                if self._without_since is not None:
                    self.tally.gaps_s.append(self.now - self._without_since)
                    self._without_since = None
            elif self._without_since is None:
                self._without_since = self.now
            await self.pair.world.clock.sleep(LOOK_S)

    def judge(self, master):
        """Compare the log of a new master, or of any broker at the end, with all that clients know."""
        found = master.log().messages
        self.tally.lost = max(self.tally.lost, len(self.history.lost(found)))
        if not self.judged:
            return
        try:
            self.history.judge(found)
        except AssertionError as error:
            raise AssertionError(f"the master of epoch {self._judged}, {master.name}: {error}") from error

    async def settle(self):
        """End every trouble; a master is elected, and the others follow it."""
        self.delivery.heal()
        self.engine.faults.heal()
        for host in self.all:
            if not (host.process is not None and host.process.alive):
                await host.start()
            host.process.resume()
        before = len(self.history.acknowledged)

        def settled():
            self.check()
            if not self.judged and any("in-sync set confirmed" in host.service.copy.problem for host in self.all):
                self.tally.refused = 1
                return True
            master = self.master()
            return (
                master is not None
                and len(master.elected.set.members) == len(self.all)
                and all(host is master or host.service.copy.followed for host in self.all)
                and len(self.history.acknowledged) > before + 20
            )

        await self.pair.until(settled, f"set of all brokers: {self.explain()}", 90)

    def explain(self):
        """Say how each broker stands."""
        return "; ".join(f"{host.name}: {self._explain(host)}" for host in self.all)

    def _explain(self, host):
        if not host.runs:
            return "does not run"
        machine = host.elected
        if machine is None:
            return host.service.election.problem if host.service.election else "no election"
        members = sorted(machine.set.members) if machine.set is not None else None
        return f"epoch {machine.epoch}, set {members}, {machine.problem(self.now)!r}, {host.service.copy.problem!r}"

    async def judge_end(self):
        """Check that all logs are equal and have what clients know, after `settle` and `stop`."""
        master = self.master()
        await self.pair.until(
            lambda: all(end(host.cluster) == end(master.cluster) for host in self.all), "equal ends", 30
        )
        log, epochs = await log_of(master.cluster), master.epochs
        for host in self.all:
            assert await log_of(host.cluster) == log, f"{host.name} has another log than {master.name}"
            assert host.epochs == epochs, f"epochs of {host.name}: {host.epochs}, of {master.name}: {epochs}"
        self.judge(master)
        self.history.judge_epochs(epochs)
        self.tally.epochs = len(epochs)

    # --- troubles -----------------------------------------------------------------------------------------------------

    async def trouble(self, kinds=TROUBLES):
        """Let something go wrong, more often at the master than elsewhere."""
        chance, delivery, kind = self.pair.chance, self.delivery, self.pair.chance.choice(kinds)
        master = self.master()
        host = master if master is not None and chance.random() < 0.5 else chance.choice(self.all)
        other = chance.choice([each for each in self.all if each is not host])
        seconds = chance.uniform(0.5, 8)
        self.tally.troubles[kind] += 1
        if kind in ("kill", POWER):
            await host.kill_at_a_write(power=kind == POWER)
            await self.pair.world.clock.sleep(chance.choice((0, chance.uniform(0, 1), chance.uniform(1, 8))))
            await host.start()
        elif kind == "pause":
            host.process.pause()
            asyncio.get_running_loop().call_later(seconds, host.process.resume)
            await self.pair.world.clock.sleep(chance.uniform(0, seconds))
        elif kind == "partition of two brokers":
            delivery.part(host.name, other.name, seconds)
        elif kind == "one-way partition of two brokers":
            delivery.part(host.name, other.name, seconds, one_way=True)
        elif kind == "partition from the engine":
            delivery.part(host.name, ENGINE, seconds)
        elif kind == "one-way partition from the engine":
            delivery.part(*chance.sample((host.name, ENGINE), 2), seconds, one_way=True)
        elif kind == "partition from all brokers and the engine":
            for each in (ENGINE, *(each.name for each in self.all if each is not host)):
                delivery.part(host.name, each, seconds)
        elif kind == "partition from the clients":
            delivery.part(host.name, CLIENTS, seconds)
        elif kind == "cut connections":
            delivery.cut_some(0.5)
        elif kind == "slow network":
            delivery.slow_down(host.name, seconds)
        elif kind == "clock step":
            host.ahead_ms = host.process.ahead_ms = chance.choice((-86_400_000, -5000, 0, 5000, 86_400_000))
        elif kind == "slow disk":
            before, host.workers.most_s = host.workers.most_s, 3.0
            asyncio.get_running_loop().call_later(seconds, setattr, host.workers, "most_s", before)
        elif kind == "lost answers of the engine":
            self.engine.faults.lose(seconds)
        else:
            self.engine.fail(seconds)
