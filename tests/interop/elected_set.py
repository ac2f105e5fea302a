"""Brokers of both kinds in one set, elected by RocketMQ's controllers, for tests."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from harness import Driver, GantryServer, JavaBroker, Process
from harness.java_servers import SMALL_STORE
from harness.ports import free_port
from harness.probe import request
from java_controllers import ElectedJavaBroker, JavaController, start_controllers
from polling import wait_until

CLIENT = "5.3.3"
BROKER = "broker-a"
NAMES = {"clusterName": "DefaultCluster", "brokerName": BROKER}
NOT_LEADER = 2007  # a controller that is about to lead
LEADER_S = 60.0
SET_S = 60.0  # a Java broker needs 10 s until it is in the set
MASTER_S = 30.0
OUR_SIZES = {key: str(value) for key, value in SMALL_STORE.items() if key.startswith("mappedFileSizeC")}


class Standing(NamedTuple):
    """What the leading controller says."""

    master: int | None
    epoch: int
    members: tuple[int, ...]


class ElectedSet:
    """Controllers, a name server of ours, and the brokers of one name, on stores that outlive their processes."""

    def __init__(self, running: Callable[[Process], Process], folder: Path, controllers: int = 1) -> None:
        self.folder, self._running = folder, running
        self.controllers: list[JavaController] = start_controllers(running, folder, controllers)
        wait_until(self.leader, "a leading controller", LEADER_S)
        self.namesrv: str = running(GantryServer.name_server(folder / "namesrv")).namesrv
        self.brokers: dict[str, Process] = {}
        self._ports: dict[str, tuple[int, int]] = {}
        self._starts = 0
        self.environ: dict[str, str] = {}  # of brokers of ours that start later, besides the usual variables

    @property
    def addresses(self) -> str:
        """The setting controllerAddr."""
        return ";".join(each.address for each in self.controllers)

    # --- brokers ------------------------------------------------------------------------------------------------------

    def start(self, name: str, **settings: str) -> Process:
        """Start a broker on its store: a Java broker if its name begins with "java", else one of ours."""
        self._starts += 1
        scratch = self.folder / name / f"start{self._starts}"
        ports = self._ports.setdefault(name, (free_port(also_below=2), free_port()))
        if name.startswith("java"):
            given = {"allAckInSyncStateSet": "true", **settings}
            broker: Process = ElectedJavaBroker(
                scratch, self.store(name), self.namesrv, self.controllers, ports, **given
            )
        else:
            own = {"enableControllerMode": "true", "controllerAddr": self.addresses, "listenPort": str(ports[0])}
            files = {"storePathRootDir": str(self.store(name)), "haListenPort": str(ports[1])}
            given = {**OUR_SIZES, **own, **files, **settings}
            broker = GantryServer.broker(scratch, self.namesrv, settings=given, environ=self.environ)
        self.brokers[name] = self._running(broker)
        return broker

    def fixed(self, name: str, **settings: str) -> Process:
        """Start a broker of fixed roles on its store: a Java broker if its name begins with "java"."""
        self._starts += 1
        scratch = self.folder / name / f"start{self._starts}"
        ports = self._ports.setdefault(name, (free_port(also_below=2), free_port()))
        given = {"haListenPort": str(ports[1]), **settings}
        if name.startswith("java"):
            broker: Process = JavaBroker(
                CLIENT, scratch, self.namesrv, store=self.store(name), settings=given, port=ports[0]
            )
        else:
            own = {"listenPort": str(ports[0]), "storePathRootDir": str(self.store(name))}
            broker = GantryServer.broker(scratch, self.namesrv, settings={**OUR_SIZES, **own, **given})
        self.brokers[name] = self._running(broker)
        return broker

    def store(self, name: str) -> Path:
        """The store folder of a broker."""
        return self.folder / name / "store"

    def address(self, name: str) -> str:
        """The broker address."""
        return f"127.0.0.1:{self._ports[name][0]}"

    def number(self, name: str) -> int:
        """The id of a broker in the set."""
        identity = self.store(name) / "brokerIdentity"
        return int(identity.read_text().split("#")[2]) if identity.exists() else 0

    def kill(self, name: str) -> None:
        """Kill a broker."""
        self.brokers[name].kill()

    def tails(self) -> str:
        """The last output of all brokers, and what the controllers say."""
        return f"{self.standing()} {''.join(each.tail() for each in self.brokers.values())}"

    # --- the controllers ----------------------------------------------------------------------------------------------

    def leader(self) -> str:
        """The address of the leading controller; empty if none leads."""
        for each in self.controllers:
            if each.alive():
                try:
                    found = request(each.address, 1005, {})[0].get("extFields", {}).get("controllerLeaderAddress", "")
                except OSError:
                    continue
                if found and any(one.address == found and one.alive() for one in self.controllers):
                    return str(found)
        return ""

    def restart_leader(self) -> None:
        """Kill the leading controller, and start it again on its folder when another one leads."""
        old = self.leader()
        [place] = [place for place, each in enumerate(self.controllers) if each.address == old]
        self.controllers[place].kill()
        if len(self.controllers) > 1:
            wait_until(self.leader, "another leader", SET_S)
        self.controllers[place] = self._running(self.controllers[place].again())
        wait_until(self.leader, "leader", SET_S)

    def standing(self) -> Standing | None:
        """What the leading controller says; None if it knows nothing, or none leads."""
        if not (leader := self.leader()):
            return None
        try:
            header, body = request(leader, 1004, {"brokerName": BROKER})
        except OSError:
            return None
        if header["code"] != 0:
            return None
        found, members = header["extFields"], json.loads(body)["syncStateSet"]
        master = int(found.get("masterBrokerId", -1))
        return Standing(master if master > 0 else None, int(found["masterEpoch"]), tuple(sorted(members)))

    def wait_for_set(self, *names: str) -> None:
        """Wait until the set consists of these brokers."""

        def there() -> bool:
            ids, found = sorted(self.number(each) for each in names), self.standing()
            return found is not None and found.members == tuple(ids)

        wait_until(there, f"a set of {names}", SET_S, self.tails)

    def wait_for_epoch_after(self, epoch: int) -> None:
        """Wait until there is a master of a newer epoch."""

        def there() -> bool:
            found = self.standing()
            return found is not None and found.epoch > epoch and found.master is not None

        wait_until(there, f"a master after epoch {epoch}", SET_S, self.tails)

    def wait_for_master(self, name: str) -> int:
        """Wait until a broker is the master and takes messages; return its epoch."""

        def there() -> bool:
            found = self.standing()
            return found is not None and found.master == self.number(name) and self.send(name, "TBW102") == 0

        wait_until(there, f"{name} as the master", MASTER_S, self.tails)
        found = self.standing()
        assert found is not None
        return found.epoch

    def elect(self, name: str) -> None:
        """Let the controller elect a broker, as mqadmin electMaster does."""
        asked = {**NAMES, "brokerId": str(self.number(name)), "designateElect": "true", "invokeTime": "0"}

        def elected() -> bool:
            if not (leader := self.leader()):
                return False
            answer = request(leader, 1002, asked)[0]
            assert answer["code"] in (0, NOT_LEADER), answer
            return answer["code"] == 0

        wait_until(elected, f"an election of {name}", MASTER_S)

    # --- messages -----------------------------------------------------------------------------------------------------

    def send(self, name: str, topic: str, body: bytes = b"body") -> int:
        """Send a message to a broker; return the code of its answer, -1 without one."""
        fields = {
            "producerGroup": "p",
            "topic": topic,
            "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "1",
            "queueId": "0",
            "sysFlag": "0",
            "bornTimestamp": "0",
            "flag": "0",
            "properties": "",
        }
        try:
            return int(request(self.address(name), 10, fields, body)[0]["code"])
        except OSError:
            return -1

    def driver(self) -> Driver:
        """The official Java client."""
        return Driver(CLIENT, self.folder / "clients", self.namesrv)

    # --- what is equal ------------------------------------------------------------------------------------------------

    def log_end(self, name: str) -> int:
        """The end of a broker's log."""
        return int(json.loads(request(self.address(name), 1007, {})[1])["maxOffset"])

    def log(self, name: str, end: int) -> bytes:
        """The log up to *end*. A Java broker leaves bytes in its files after a cut, apache/rocketmq #10666."""
        files = sorted((self.store(name) / "commitlog").iterdir())
        return b"".join(each.read_bytes() for each in files)[:end]

    def epochs(self, name: str) -> bytes:
        """The file with the epochs."""
        return (self.store(name) / "epochFileCheckpoint").read_bytes()

    def wait_for_equal(self, names: Sequence[str], *, epochs: bool = True) -> None:
        """Wait until the logs, and with *epochs* also the epoch files, of running brokers are equal, byte for byte."""

        def equal() -> bool:
            end, *others = (self.log_end(each) for each in names)
            if any(each != end for each in others):
                return False
            if epochs and len({self.epochs(each) for each in names}) > 1:
                return False
            return len({self.log(each, end) for each in names}) == 1

        def seen() -> str:
            return f"{[(each, self.log_end(each), self.epochs(each)) for each in names]} {self.tails()}"

        wait_until(equal, f"equal logs and epochs of {names}", 30, seen)
