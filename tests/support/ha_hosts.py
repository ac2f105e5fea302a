"""A master and its slaves as hosts of a simulated world, each with a disk of its own that may be slow, full or without
power; and what their clients know. `Hosts.trouble` lets something go wrong, `Hosts.judge` looks at the disks."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path

import attrs
from ha_pairs import SETTINGS, service
from message_history import History, Place, body_of, read_log, records_in

from gantrymq.errors import GantryError
from gantrymq.interfaces import GetLimit, SendRequest
from gantrymq.model.queue import Queue
from gantrymq.world.workers import resolve_future
from gantrymq_replication.master import MasterService
from gantrymq_storage_faults import FaultPlan, FaultyFiles, LateWorkers, Machine, Slowness
from gantrymq_testing.cluster import Cluster
from gantrymq_testing.simulated import ProcessKilled, SimulatedFiles, SimulatedProcess

MASTER, SLAVES, PORT = "10.0.0.1", ("10.0.0.2", "10.0.0.3"), 20000
BROKER, TOPIC, QUEUES = "broker-a", "Orders", 4
SENDERS = 6
HOST_SETTINGS = {
    **SETTINGS,
    "haListenPort": PORT,
    "haHousekeepingInterval": 4000,
    "haSendHeartbeatInterval": 1000,
    "haMaxTimeSlaveNotCatchup": 3000,
    "maxHashSlotNum": 500,  # the usual index file of 420 MB takes most of the time of a run
    "maxIndexNum": 2000,
    "cleanFileForciblyEnable": False,  # a full disk deletes nothing, and refuses the last byte
    "diskSpaceWarningLevelRatio": 100,
}
TROUBLES = (
    *("cut connections", "partition", "one-way partition", "slow network", "no connections"),
    *("kill", "power cut", "pause", "full disk", "clock step"),
)


class SlowWorkers:
    """Workers whose threads begin late: what they sync may be lost until then."""

    def __init__(self, inner, clock, files, seed):
        """*files* are those of the process: once it has ended, nothing more begins."""
        self._inner, self._clock, self._files = inner, clock, files
        self._random = random.Random(f"{seed}/threads")
        self.most_s = self._random.choice((0.0005, 0.005, 0.05, 0.5))
        self._waiting = 0

    async def run(self, work, *args):
        answer = asyncio.get_running_loop().create_future()
        self.submit(work, *args, done=resolve_future(answer))
        return await answer

    def submit(self, work, *args, done):
        self._waiting += 1
        share = self._random.random() ** 4  # most begin early
        self._clock.call_later(share * self.most_s, self._begin, work, args, done)

    def _begin(self, work, args, done):
        self._waiting -= 1
        if not self._files.crashed:
            with suppress(ProcessKilled):
                self._inner.submit(work, *args, done=done)

    async def close(self):
        while self._waiting:
            await self._clock.sleep(0.01)
        await self._inner.close()


class Host:
    """A host with a disk, on which one broker process runs after another."""

    def __init__(self, pair, name, seed, settings):
        self.name, self.settings = name, settings
        self._pair, self._seed, self._lives = pair, seed, 0
        self.disk = SimulatedFiles(pair.world.clock.now_ms)
        self.machine = Machine(self.disk)
        self.ahead_ms = 0
        self.cluster = self.process = self.files = None
        self.next_offsets = [0] * QUEUES  # of the consumer

    @property
    def runs(self):
        """Whether the process reacts."""
        return self.process is not None and self.process.alive and not self.process.paused

    async def start(self):
        chance, world = self._pair.chance, self._pair.world
        self._lives += 1
        slow = Slowness((0.001, chance.choice((0.05, 1.0))), {"datasync", "syncfs"}, share=0.3)
        plan = FaultPlan(
            seed=f"{self._seed}/{self.name}/{self._lives}",
            slowness=(slow,) if chance.random() < 0.5 else (),
            lose=chance.choice((0.2, 0.5, 1.0)),
            names_in_order=chance.random() < 0.5,
        )
        self.files = files = FaultyFiles(self.machine, plan, on_crash=lambda: process.kill())
        late = LateWorkers(world.workers, world.clock, files)
        self.workers = SlowWorkers(late, world.clock, files, plan.seed)
        world = attrs.evolve(world, files=files, workers=self.workers)
        self.process = process = SimulatedProcess(world, asyncio.get_running_loop(), self.name, self._lives)
        process.on_kill = files.crash
        process.ahead_ms = self.ahead_ms
        own = {"bindAddress": self.name, "brokerIP1": self.name}
        self.cluster = Cluster(process.world, Path("/"), {**HOST_SETTINGS, **own, **self.settings})
        await process.run(self.begin())

    async def begin(self):
        """Start the servers, as code of the process."""
        await self.cluster.start()

    def kill(self, *, power=False):
        """End the process; with *power*, what is not synced is lost."""
        self.files.power_cut() if power else self.files.crash()

    async def kill_at_a_write(self, *, power=False):
        """End the process as `kill`, at one of its next changes of a file, or when there are none."""
        self.process.resume()
        self.process.kill_at_file_call(self._pair.chance.randint(1, 20))
        began = self._pair.world.clock.monotonic()
        while self.process.alive and self._pair.world.clock.monotonic() < began + 0.3:
            await self._pair.world.clock.sleep(0.005)
        self.kill(power=power)

    def log(self):
        """Return what is in the log files on the disk."""
        folder = Path("/store/commitlog")
        return read_log((self.disk.read(folder / name) for name in self.disk.list(folder)), BROKER, TOPIC)


class Hosts:
    """Master and slaves, senders and consumers."""

    def __init__(self, pair, delivery, seed, slaves, settings):
        self.pair, self.delivery = pair, delivery
        self.sync = settings["brokerRole"] == "SYNC_MASTER"
        self.master = Host(pair, MASTER, seed, settings)
        self.slaves = [
            Host(pair, name, seed, {"brokerRole": "SLAVE", "brokerId": number, "haMasterAddress": f"{MASTER}:{PORT}"})
            for number, name in enumerate(SLAVES[:slaves], 1)
        ]
        self.all = [self.master, *self.slaves]
        self.history = History()
        self._clients = []
        self._numbers = 0

    async def start(self):
        for host in self.all:
            await host.start()
        self._clients = [asyncio.ensure_future(self._send_always(number)) for number in range(SENDERS)]
        self._clients += [asyncio.ensure_future(self._consume_always(host)) for host in self.all]

    async def stop_clients(self):
        for task in self._clients:
            task.cancel()
        await asyncio.wait(self._clients)
        for task in self._clients:
            if not task.cancelled():
                task.result()

    # --- clients ------------------------------------------------------------------------------------------------------

    async def _send_always(self, number):
        clock, history = self.pair.world.clock, self.history
        while True:
            await clock.sleep(0.06)
            if not self.master.runs:
                continue
            self._numbers += 1
            body = f"{number}-{self._numbers}"
            request = SendRequest("p", TOPIC, body.encode() + b"." * (self._numbers * 37 % 3000))
            begun = clock.monotonic()
            try:
                answer = await self.master.process.run(self.master.cluster.broker.messages.send(request))
            except (GantryError, AssertionError, ProcessKilled, asyncio.CancelledError):
                if asyncio.current_task().cancelling():
                    raise
                history.unsure += 1
                continue
            place = Place(BROKER, answer.queue_id, answer.results[0].queue_offset)
            if answer.unconfirmed is None:
                history.acknowledge(body, place, begun, clock.monotonic(), answer.results[0].log_offset)
                self._judge_in_sync()
            else:
                history.unsure += 1

    async def _consume_always(self, host):
        """Read what is visible on *host*."""
        while True:
            await self.pair.world.clock.sleep(0.1)
            for queue_id in range(QUEUES):
                if not host.runs:
                    break
                try:
                    broker = host.cluster.broker
                    got = await host.process.run(
                        broker.messages.get(Queue(TOPIC, queue_id), host.next_offsets[queue_id], GetLimit())
                    )
                except (GantryError, AssertionError, ProcessKilled, asyncio.CancelledError):
                    if asyncio.current_task().cancelling():
                        raise
                    break
                for record in records_in(got.buffers):
                    self.history.saw(Place(BROKER, queue_id, record.queue_offset), body_of(record.body))
                    host.next_offsets[queue_id] = record.queue_offset + 1

    # --- troubles -----------------------------------------------------------------------------------------------------

    async def trouble(self):
        """Let something go wrong."""
        chance, delivery, kind = self.pair.chance, self.delivery, self.pair.chance.choice(TROUBLES)
        host = chance.choice(self.all)
        slave = host if host in self.slaves else chance.choice(self.slaves)
        seconds = chance.uniform(0.5, 8)
        if kind == "cut connections":
            delivery.cut_some(0.7)
        elif kind == "partition":
            delivery.part(MASTER, slave.name, seconds)
        elif kind == "one-way partition":
            delivery.part(*chance.sample((MASTER, slave.name), 2), seconds, one_way=True)
        elif kind == "slow network":
            delivery.slow_down(host.name, seconds)
        elif kind == "no connections":
            delivery.refuse(MASTER, seconds)
        elif kind == "clock step":
            host.ahead_ms = host.process.ahead_ms = chance.choice((-86_400_000, -5000, 0, 5000, 86_400_000))
        elif kind == "full disk":
            room = chance.randrange(150_000)
            await self._for_some_time(host, lambda: setattr(host.files, "room_bytes", room), seconds)
        elif kind == "pause":
            await self._for_some_time(host, host.process.pause, seconds)
        else:
            await host.kill_at_a_write(power=kind == "power cut")
            self.judge()  # nothing has been copied again
            await self.pair.world.clock.sleep(chance.uniform(0, 3))
            await host.start()

    async def _for_some_time(self, host, begin, seconds):
        """Begin, and end it after *seconds*, or when the process ends."""
        files, process = host.files, host.process

        def end():
            files.room_bytes = None
            process.resume()

        begin()
        asyncio.get_running_loop().call_later(seconds, end)
        await self.pair.world.clock.sleep(self.pair.chance.uniform(0, seconds))

    # --- what is on the disks -----------------------------------------------------------------------------------------

    def longest(self):
        """Return the slave with the longest log, up to a hole that a power cut left."""
        return max(self.slaves, key=lambda slave: slave.log().end)

    def judge(self):
        """Check that the slave with the longest log has what a SYNC_MASTER acknowledged, and no consumer saw more."""
        for task in self._clients:
            if task.done():
                task.result()
        log, *copies = [host.log() for host in self.all]
        copies.sort(key=lambda each: -each.end)
        assert copies[0].end <= log.end, "a slave has records that the master lost"
        judge = self.history.judge if self.sync else self.history.judge_seen
        judge(*(each.messages for each in (*copies, log)))

    def _judge_in_sync(self):
        """Check that each slave in sync has confirmed what was acknowledged, if the master waits for all of them."""
        if "allAckInSyncStateSet" not in self.master.settings or not self.master.runs:
            return
        replicas = service(self.master.cluster, MasterService).replicas
        last = max(each.log_offset for each in self.history.acknowledged[-SENDERS:])
        end = self.master.cluster.store.raw_log.log_range().max_offset
        for each in replicas.in_sync(end, self.pair.world.clock.monotonic()):
            assert each.acked > last, f"{each.address} is in sync with {each.acked} of {last} acknowledged"
