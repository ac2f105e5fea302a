"""Engines in a simulated world that are reached over its network: etcd, and a model of RocketMQ's controller.

Partitions and delays of the network hold for them as well: a request that waits in one is carried out when it ends,
whether or not its sender has given up. `Faults` adds lost requests and answers, and times in which the engine is down.
"""

import asyncio
import json
import random
from contextvars import Context

import attrs
from memory_etcd import MemoryEtcd

from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers.controller import ElectMasterRequest, GetMetaDataResponse, MasterHeader
from gantrymq.remoting.server import RemotingServer
from gantrymq_replication.election.controller_headers import (
    AlterRequest,
    AlterResponse,
    ApplyIdRequest,
    ControllerCode,
    HeartbeatRequest,
    NextIdResponse,
    RegisterRequest,
    read_set,
    write_set,
)
from gantrymq_replication.election.engine import EngineUnreachable
from gantrymq_testing.simulated import Link
from gantrymq_testing.simulated.loop import OWNER

ENGINE = "10.0.0.8"
CALL_S = 1.5  # as EtcdClientSettings.call_s


class Faults:
    """What goes wrong at the engine itself."""

    def __init__(self, seed, clock):
        self._random, self._clock = random.Random(f"{seed}/engine"), clock
        self._lossy_until = self._down_until = 0.0

    def lose(self, seconds):
        """Lose half of the requests and answers for *seconds*."""
        self._lossy_until = self._clock.monotonic() + seconds

    def fail(self, seconds):
        """Answer nothing for *seconds*."""
        self._down_until = self._clock.monotonic() + seconds

    def heal(self):
        self._lossy_until = self._down_until = 0.0

    @property
    def down(self):
        return self._clock.monotonic() < self._down_until

    def loses(self):
        """Whether the next request or answer is lost."""
        return self._clock.monotonic() < self._lossy_until and self._random.random() < 0.5


# --- etcd -------------------------------------------------------------------------------------------------------------


class NetworkedEtcd:
    """etcd on the host ENGINE. After a failure its leases begin anew, as with a new leader of a real one."""

    def __init__(self, world, delivery, seed):
        self.faults = Faults(seed, world.clock)
        self._etcd, self._delivery = MemoryEtcd(world.clock), delivery
        self._failed = False

    async def start(self):
        """Nothing to do: it is no process."""

    def fail(self, seconds):
        """Answer nothing for *seconds*."""
        self.faults.fail(seconds)

    def client(self):
        """`Etcd` of the process that asks for it."""
        return NetworkedClient(self, OWNER.get().world.host_name)

    def later(self, source, target, call, *args):
        """Call outside of any process when bytes from *source* have reached *target*."""
        latency_s = self._delivery.latency_s(Link(0, (source, 1), (target, 1)))
        asyncio.get_running_loop().call_later(latency_s, call, *args, context=Context())

    def arrive(self, host, call, args, answer):
        """Carry out a request from *host*."""
        if self.faults.down:
            self._failed = True
            return
        if self._failed:
            self._failed = False
            now = self._etcd.clock.monotonic()
            self._etcd.leases = {lease: (ttl_s, now + ttl_s) for lease, (ttl_s, _) in self._etcd.leases.items()}
        if self.faults.loses():
            return
        self._etcd.expire()
        found = getattr(self._etcd, call)
        found = found(*args) if callable(found) else found
        if not self.faults.loses():
            self.later(ENGINE, host, self._deliver, answer, found)

    @staticmethod
    def _deliver(answer, found):
        if not answer.done():
            answer.set_result(found)

    def lets(self, broker, epoch):
        """Whether a broker may act as the master of *epoch* now."""
        etcd = self._etcd
        found = next((value for key, value in etcd.keys.items() if key.endswith("/master")), None)
        if found is None or json.loads(found.value) != {"id": broker, "epoch": epoch}:
            return False
        return etcd.leases[found.lease][1] > etcd.clock.monotonic()

    def watch(self, keys):
        return self._etcd.watch(keys)


class NetworkedClient:
    """`Etcd` of one process: its requests go on when it ends or is suspended."""

    def __init__(self, etcd, host):
        self._etcd, self._host = etcd, host

    async def _call(self, call, *args):
        answer = asyncio.get_running_loop().create_future()
        self._etcd.later(self._host, ENGINE, self._etcd.arrive, self._host, call, args, answer)
        try:
            return await asyncio.wait_for(answer, CALL_S)
        except TimeoutError:
            raise EngineUnreachable("etcd does not answer") from None

    async def version(self):
        return await self._call("version")

    async def read(self, prefixes):
        return await self._call("read", prefixes)

    async def commit(self, txn):
        return await self._call("commit", txn)

    async def grant(self, ttl_s):
        return await self._call("grant", ttl_s)

    async def keep_alive(self, lease):
        return await self._call("keep_alive", lease)

    async def revoke(self, lease):
        await self._call("revoke", lease)

    async def watch(self, keys, changed):
        event = self._etcd.watch(keys)
        while True:
            await changed()
            await event.wait()
            event.clear()
            told = asyncio.Event()
            self._etcd.later(ENGINE, self._host, told.set)
            await told.wait()

    async def close(self):
        """Nothing to do."""


# --- RocketMQ's controller --------------------------------------------------------------------------------------------


class ControllerModel:
    """A controller of Java 5.3.3 with one node, as its source and recordings show it.

    It elects when the connection of the master breaks, or its heartbeats stop, the living member of the in-sync set
    with the longest log; the new set is the master alone. Its state survives a failure, what it knows of the living
    does not. Only the answers that brokers of ours need are there.
    """

    PORT = 9878
    SCAN_S = 5.0

    def __init__(self, world, delivery, seed):
        self.faults = Faults(seed, world.clock)
        self._clock = world.clock
        world = attrs.evolve(world, network=world.network.on_host(ENGINE))
        self._server = RemotingServer(world, self)
        self._client = RemotingClient(world)
        self.address = f"{ENGINE}:{self.PORT}"
        self._checks, self._addresses = {}, {}  # by id
        self._next_id = 1
        self.master, self.epoch, self.members, self.set_epoch = None, 0, frozenset(), 0
        self._alive = {}  # by id: (connection, heard at, heartbeat)
        self._heard = {}  # by id: (heard at, timeout), also of those that are not alive any more
        self._tasks = set()
        self._answers = {
            RequestCode.CONTROLLER_GET_METADATA_INFO: self._metadata,
            RequestCode.CONTROLLER_GET_NEXT_BROKER_ID: self._next,
            RequestCode.CONTROLLER_APPLY_BROKER_ID: self._apply,
            RequestCode.CONTROLLER_REGISTER_BROKER: self._register,
            RequestCode.BROKER_HEARTBEAT: self._heartbeat,
            RequestCode.CONTROLLER_ELECT_MASTER: self._elect,
            RequestCode.CONTROLLER_GET_REPLICA_INFO: self._info,
            RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET: self._alter,
            RequestCode.CONTROLLER_GET_SYNC_STATE_DATA: self._sets,
        }

    def lets(self, broker, epoch):
        """Whether a broker may act as the master of *epoch* now, as far as it can know.

        It cannot know at once that another one was elected, because its connection was seen to break only here.
        """
        heard_at, timeout_s = self._heard.get(broker, (0.0, 0.0))
        return epoch <= self.epoch and self._clock.monotonic() < heard_at + timeout_s

    async def start(self):
        await self._server.start(ENGINE, self.PORT)
        self._run(self._scan_always())

    def fail(self, seconds):
        """End, and start again after *seconds*."""
        self.faults.fail(seconds)
        self._forget()

    def _run(self, work):
        self._tasks.add(task := asyncio.ensure_future(work))
        task.add_done_callback(self._tasks.discard)

    def requests(self, connection, commands):
        """See `RequestHandler`."""
        for each in commands:
            if self.faults.down:
                connection.abort()
                return
            if self.faults.loses():
                continue
            answer = self._answers[each.code](each, connection)
            if not self.faults.loses():
                connection.reply(each, answer)

    def _forget(self):
        """Its process has ended; every connection breaks, and who lives is not known any more."""
        self._alive.clear()
        for each in self._server.connections:
            each.abort()

    # --- requests -----------------------------------------------------------------------------------------------------

    def _metadata(self, asked, connection):
        header = GetMetaDataResponse(
            group="g", controller_leader_id="n0", controller_leader_address=self.address, is_leader=True
        )
        return Command(0, ext=header.to_ext())

    def _next(self, asked, connection):
        return Command(0, ext=NextIdResponse(next_broker_id=self._next_id).to_ext())

    def _apply(self, asked, connection):
        header = ApplyIdRequest.from_ext(asked.ext)
        number, check = header.applied_broker_id, header.register_check_code
        if self._checks.setdefault(number, check) != check:
            return Command(ControllerCode.BROKER_ID_INVALID)
        self._next_id = max(self._next_id, number + 1)
        return Command(0)

    def _register(self, asked, connection):
        header = RegisterRequest.from_ext(asked.ext)
        if header.broker_id not in self._checks:
            return Command(ControllerCode.BROKER_NEED_TO_BE_REGISTERED)
        self._addresses[header.broker_id] = header.broker_address
        return self._standing() if self.master in self._alive else Command(0)

    def _standing(self, code=0):
        header = MasterHeader(master_epoch=self.epoch, sync_state_set_epoch=self.set_epoch)
        if self.master is not None:
            header = MasterHeader(
                master_broker_id=self.master,
                master_address=self._addresses[self.master],
                master_epoch=self.epoch,
                sync_state_set_epoch=self.set_epoch,
            )
        return Command(code, ext=header.to_ext(), body=write_set(self.members, self.set_epoch))

    def _heartbeat(self, asked, connection):
        header = HeartbeatRequest.from_ext(asked.ext)
        if (known := self._alive.get(header.broker_id)) is None or known[0] is not connection:
            connection.on_close(lambda _: self._closed(header.broker_id, connection))
        now = self._clock.monotonic()
        self._alive[header.broker_id] = (connection, now, header)
        self._heard[header.broker_id] = (now, header.heartbeat_timeout_mills / 1000)
        return Command(0, remark="Heart beat success")

    def _info(self, asked, connection):
        return self._standing() if self._checks else Command(ControllerCode.BROKER_METADATA_NOT_EXIST)

    def _sets(self, asked, connection):
        found = {"inSyncReplicas": [], "notInSyncReplicas": []}
        for each, address in self._addresses.items():
            kind = "inSyncReplicas" if each in self.members else "notInSyncReplicas"
            found[kind].append({"brokerId": each, "brokerAddress": address, "alive": each in self._alive})
        return Command(0, body=json.dumps({"replicasInfoTable": {"broker-a": found}}).encode())

    def _elect(self, asked, connection):
        header = ElectMasterRequest.from_ext(asked.ext)
        if header.broker_id not in self._checks:
            return Command(ControllerCode.BROKER_NEED_TO_BE_REGISTERED)
        if header.designate_elect:
            return self._designate(header.broker_id)
        if not self.epoch:
            self._choose(header.broker_id)
        elif self.master in self._alive:
            return self._standing(ControllerCode.MASTER_STILL_EXIST)
        elif not self._choose_best():
            return Command(ControllerCode.ELECT_MASTER_FAILED, remark="no candidate")
        return self._standing()

    def _designate(self, broker_id):
        """An operator, or a master that hands over, asks for a broker."""
        if broker_id == self.master and broker_id in self._alive:
            return self._standing(ControllerCode.MASTER_STILL_EXIST)
        if broker_id not in self.members or broker_id not in self._alive:
            return Command(ControllerCode.ELECT_MASTER_FAILED, remark="no candidate")
        self._choose(broker_id)
        self._tell_all()
        return self._standing()

    def _alter(self, asked, connection):
        header, (members, set_epoch) = AlterRequest.from_ext(asked.ext), read_set(asked.payload)
        code = None
        if members == self.members or header.master_broker_id not in members:
            code = ControllerCode.ALTER_SYNC_STATE_SET_FAILED
        elif header.master_broker_id != self.master:
            code = ControllerCode.INVALID_MASTER
        elif header.master_epoch != self.epoch:
            code = ControllerCode.FENCED_MASTER_EPOCH
        elif set_epoch != self.set_epoch:
            code = ControllerCode.FENCED_SYNC_STATE_SET_EPOCH
        elif not members <= self._checks.keys():
            code = ControllerCode.INVALID_REPLICAS
        elif not members <= self._alive.keys():
            code = ControllerCode.BROKER_NOT_ALIVE
        if code is not None:
            return Command(code)
        self.members, self.set_epoch = members, set_epoch + 1
        return Command(0, ext=AlterResponse(new_sync_state_set_epoch=self.set_epoch).to_ext(), body=asked.payload)

    # --- elections ----------------------------------------------------------------------------------------------------

    def _choose(self, master):
        self.master, self.epoch = master, self.epoch + 1
        self.members, self.set_epoch = frozenset({master}), self.set_epoch + 1

    def _choose_best(self):
        """Elect; return whether somebody could be elected."""
        candidates = [
            ((heartbeat.epoch, heartbeat.max_offset, -heartbeat.election_priority), each)
            for each, (_, _, heartbeat) in self._alive.items()
            if each in self.members
        ]
        if candidates:
            self._choose(max(candidates)[1])
        return bool(candidates)

    def _replace(self):
        """The master is dead: elect another one, or none, and tell who lives."""
        if not self._choose_best() and self.master is not None:
            self.master, self.epoch = None, self.epoch + 1
        self._tell_all()

    def _tell_all(self):
        for each in self._alive:
            told = self._standing()
            self._run(self._tell(self._addresses[each], request(1008, told.ext, told.body)))

    async def _tell(self, address, command):
        try:
            await self._client.oneway(address, command)
        except Exception:  # one attempt
            return

    def _closed(self, broker, connection):
        if broker in self._alive and self._alive[broker][0] is connection:
            del self._alive[broker]
            if broker == self.master and not self.faults.down:
                self._replace()

    async def _scan_always(self):
        while True:
            await self._clock.sleep(self.SCAN_S)
            if self.faults.down:
                continue
            now = self._clock.monotonic()
            for broker, (connection, heard_at, heartbeat) in [*self._alive.items()]:
                if now - heard_at > heartbeat.heartbeat_timeout_mills / 1000:
                    del self._alive[broker]
                    connection.abort()
            if self.epoch and self.master not in self._alive and self._alive:
                self._replace()
