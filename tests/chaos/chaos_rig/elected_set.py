"""A set of brokers with elected roles, its engine, a name server and clients, each on a host of its own."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

from etcd_servers import leader, start_etcd
from harness import GantryServer, Process, create_topic
from harness.probe import request, route_of
from java_controllers import start_controllers
from message_history import Bodies, History, Log, read_log, read_topic
from polling import wait_until

from chaos_rig.hosts import Host, Hosts
from chaos_rig.replica_load import ReplicaLoad

TOPIC, QUEUES, BROKER = "ChaosElections", 4, "broker-a"
HA_STATUS, EPOCHS, CONTROLLER_METADATA = 907, 1007, 1005
LISTEN_PORT, HA_PORT = "10911", "10912"
SOME = 150  # acknowledged messages before a fault and after it
READY_S, AGAIN_S = 60.0, 60.0
WATCH_S = 0.1
NOT_ENOUGH = "in-sync replicas not enough"  # why a master that has its lease accepts nothing
LEASE_S = 4
SETTINGS = {
    "enableControllerMode": "true",
    "minInSyncReplicas": "2",
    "mappedFileSizeCommitLog": str(1 << 20),
    "mappedFileSizeConsumeQueue": "20000",
    "maxHashSlotNum": "500",
    "maxIndexNum": "2000",
    "metricsExporterType": "DISABLE",
    "haSendHeartbeatInterval": "1000",
    "haHousekeepingInterval": "4000",
    "haMaxTimeSlaveNotCatchup": "4000",
    "etcdLeaseSeconds": str(LEASE_S),
    "controllerHeartBeatTimeoutMills": str(1000 * LEASE_S),
}


class Engine(NamedTuple):
    """What elects."""

    name: str  # etcd or controller
    nodes: int


class Member:
    """A broker of the set and its host; started again on the same store."""

    def __init__(self, stack: ExitStack, folder: Path, namesrv: str, host: Host, settings: dict[str, str]) -> None:
        self._stack, self._folder, self._namesrv, self.host = stack, folder, namesrv, host
        self._starts = 0
        self.store, self.address = folder / "store", f"{host.address}:{LISTEN_PORT}"
        own = {"bindAddress": host.address, "brokerIP1": host.address, "storePathRootDir": str(self.store)}
        self._settings = {**SETTINGS, **settings, **own, "listenPort": LISTEN_PORT, "haListenPort": HA_PORT}
        self.process: GantryServer
        self.start()

    def start(self) -> None:
        """Start the process; returns when it is registered."""
        self._starts += 1
        folder = self._folder / str(self._starts)
        self.process = GantryServer.broker(folder, self._namesrv, settings=self._settings, under=self.host.under)
        self._stack.callback(self._end, self.process)

    def _end(self, process: GantryServer) -> None:
        if process.alive():
            process.kill()

    def election(self) -> dict[str, Any]:
        """Return what it tells of its election."""
        found: dict[str, Any] = json.loads(request(self.address, HA_STATUS, {})[1])["election"]
        return found

    def epochs(self) -> list[tuple[int, int]]:
        """Return the epochs of its log, each with the log offset of its start."""
        found = json.loads(request(self.address, EPOCHS, {})[1])["epochList"]
        return [(each["epoch"], each["startOffset"]) for each in found]

    def log(self) -> bytes:
        """Return the bytes of its log up to the last one that is not zero."""
        return b"".join(each.read_bytes() for each in sorted((self.store / "commitlog").iterdir())).rstrip(b"\0")

    def messages(self) -> Log:
        """Return what is in its log."""
        files = sorted((self.store / "commitlog").iterdir())
        return read_log((each.read_bytes() for each in files), BROKER, TOPIC)


class Sample(NamedTuple):
    """What a broker told of itself."""

    at: float
    leads: bool  # it is the master, and has its lease


class Watch:
    """Asks each broker for its role all the time, from outside of the hosts. Works while the context lasts."""

    def __init__(self, members: list[Member]) -> None:
        self._samples: list[Sample] = []
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask, args=(each,), daemon=True) for each in members]

    def _ask(self, member: Member) -> None:
        while not self._ended.wait(WATCH_S):
            with suppress(OSError, ValueError, KeyError):
                found = member.election()
                leads = not found["problem"] or found["problem"].startswith(NOT_ENOUGH)
                self._samples.append(Sample(time.monotonic(), leads))

    def without_master_s(self, since: float) -> float:
        """Return the longest time after *since* in which no broker was a master with a lease."""
        times = [since, *(each.at for each in [*self._samples] if each.leads)]
        return longest_gap_s(each for each in times if each >= since)

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()


class ElectedSet:
    """The set of one run.

    Attributes:
        hosts: of everything.
        members: the brokers.
        engines: the processes that elect, beside `engine_hosts`.
        history: what clients noted.
        chance: for choices of this run.
    """

    def __init__(
        self, stack: ExitStack, folder: Path, number: int, engine: Engine, brokers: int, **settings: str
    ) -> None:
        """Start everything; returns when the set is whole and messages are acknowledged.

        *settings*: of the brokers; they override those for short runs.
        """
        self._stack, self._folder, self.engine = stack, folder, engine
        self.chance = random.Random(f"elections/{engine.name}/{number}")
        self.history = History()
        self.hosts = stack.enter_context(Hosts(number % 256))
        self.names, self.clients = self.hosts.add("names"), self.hosts.add("clients")
        self.engine_hosts = [self.hosts.add(f"engine{each}") for each in range(engine.nodes)]
        start = start_etcd if engine.name == "etcd" else start_controllers
        self.engines: list[Process] = start(
            stack.enter_context, folder / "engine", engine.nodes, hosts=self.engine_hosts
        )
        own = {"bindAddress": self.names.address}
        names = GantryServer.name_server(folder / "names", settings=own, under=self.names.under)
        self.namesrv = stack.enter_context(names).namesrv
        flush = self.chance.choice(("SYNC_FLUSH", "ASYNC_FLUSH"))
        settings = {"flushDiskType": flush, **self._engine_settings(), **settings}
        self.members: list[Member] = []
        for each in range(brokers):
            host, store = self.hosts.add(f"broker{each}"), folder / f"broker{each}"
            self.members.append(Member(stack, store, self.namesrv, host, settings))
            if not each:
                self.until_mastered()
                create_topic(self.namesrv, TOPIC, queues=QUEUES)
        self.until_whole()
        self.watch = stack.enter_context(Watch(self.members))
        self._loads: list[ReplicaLoad] = []
        self.load = self.add_load(self.clients, "")
        self.load.wait_for_more(SOME)

    def _engine_settings(self) -> dict[str, str]:
        if self.engine.name == "etcd":
            return {"electionEngine": "etcd", "etcdEndpoints": ";".join(each.endpoint for each in self.engines)}
        return {"controllerAddr": ";".join(each.address for each in self.engines)}

    def add_load(self, host: Host, name: str) -> ReplicaLoad:
        """Start clients on *host* whose messages begin with *name*."""
        load = ReplicaLoad(self.namesrv, TOPIC, name=name, host=host, history=self.history)
        self._loads.append(self._stack.enter_context(load))
        return load

    # --- who is who ---------------------------------------------------------------------------------------------------

    def told(self) -> dict[Member, dict[str, Any]]:
        """Return what each broker tells of its election."""
        found = {}
        for each in self.members:
            with suppress(OSError, ValueError, KeyError):
                found[each] = each.election()
        return found

    def master(self) -> Member:
        """Return the broker that accepts messages."""
        return wait_until(self._master, "a master that accepts messages", AGAIN_S, self.why)

    def _master(self) -> Member | None:
        return next((each for each, told in self.told().items() if not told["problem"]), None)

    def slave(self) -> Member:
        """Return any other one."""
        return self.chance.choice([each for each in self.members if each is not self.master()])

    def engine_leader(self) -> int:
        """Return the number of the engine's node that leads."""
        if self.engine.name == "etcd":
            return self.engines.index(leader(self.engines))
        addresses = [each.address for each in self.engines]

        def look() -> str | None:
            for each in addresses:
                with suppress(OSError):
                    header, _ = request(each, CONTROLLER_METADATA, {})
                    if found := header["extFields"].get("controllerLeaderAddress"):
                        return str(found)
            return None

        return addresses.index(wait_until(look, "a leading controller", AGAIN_S))

    def until_mastered(self) -> None:
        """Wait until the first broker is the master for the name server, though it has no slaves yet."""
        place = f'0:"{self.members[0].address}"'

        def named() -> bool:
            return place in (route_of(self.namesrv, "TBW102") or "").replace('"0":', "0:")

        wait_until(named, "a master", READY_S, self.why)

    def until_whole(self) -> None:
        """Wait until all brokers are in the set, and messages are accepted."""
        count = len(self.members)

        def whole() -> bool:
            told = self.told().values()
            return len(told) == count and any(
                not each["problem"] and len(each["syncStateSet"]) == count for each in told
            )

        wait_until(whole, "whole set", AGAIN_S, self.why)

    def why(self) -> str:
        """Return what everybody says, for messages of failed tests."""
        tails = "".join(f"\n== {each.host.name} {each.process.tail()}" for each in self.members)
        return f"{[*self.told().values()]}{tails}"

    # --- faults -------------------------------------------------------------------------------------------------------

    def lasts(self, least_s: float, most_s: float) -> None:
        """Leave a fault as it is for some time."""
        time.sleep(self.chance.uniform(least_s, most_s))  # real time: the fault itself

    def kill_engine(self, number: int, *, regularly: bool = False) -> Callable[[], None]:
        """Kill a node of the engine, or stop it *regularly*; returns what starts it again."""
        if regularly:
            self.engines[number].stop()
        else:
            self.engines[number].kill()

        def again() -> None:
            self.engines[number] = self._stack.enter_context(self.engines[number].again())

        return again

    def goes_on(self) -> None:
        """Wait until the set is whole, and sends are acknowledged."""
        self.until_whole()
        self.load.wait_for_more(SOME)

    def not_acknowledged_s(self, since: float) -> float:
        """Return the longest time after *since* without an acknowledgement, to the last one."""
        times = [since, *(each.ended for each in [*self.history.acknowledged])]
        return longest_gap_s(each for each in times if each >= since)

    # --- the judgement ------------------------------------------------------------------------------------------------

    def judge(self) -> Bodies:
        """Stop the clients, check everything, and return what is in the queues.

        The set must be whole: every broker has all, and all have the same epochs.
        """
        for load in self._loads:
            load.stop()
        self.until_equal()
        found, master = asyncio.run(read_topic(self.namesrv, TOPIC)), self.master()
        self.history.judge(found)
        for member in self.members:
            assert self.history.lost(member.messages().messages) == [], member.host.name
        self.history.judge_epochs(master.epochs())
        return found

    def until_equal(self) -> None:
        """Wait until all logs and epochs are the same."""

        def equal() -> bool:
            first, *others = self.members
            log, epochs = first.log(), first.epochs()
            return all(each.epochs() == epochs and each.log() == log for each in others)

        wait_until(equal, "equal logs and epochs", AGAIN_S, self.why)


def longest_gap_s(times: Iterable[float]) -> float:
    """Return the longest time between two of *times* that follow each other."""
    return max((after - before for before, after in pairwise(sorted(times))), default=0.0)
