"""A script of brokers that join and leave a name server, and what it answers: the same for Java's and for ours.

The brokers are sockets: each registers over one connection, and listens for notices (request 905). Requests are built
here and not with GantryMQ's code. Ports differ between runs, so that answers name the brokers instead: ``a0`` is the
broker with id 0 of the broker name ``a``.

The name server needs `SETTINGS`. Java's answers are in tests/nameserver/data; a run at HOST:PORT writes them again:

    python broker_groups.py HOST:PORT FILE.json.gz
"""

from __future__ import annotations

import gzip
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from polling import wait_until

from gantrymq.loose_json import loads

SETTINGS = {"supportActingMaster": "true", "notifyMinBrokerIdChanged": "true", "scanNotActiveBrokerInterval": "500"}
MEMBERS_TOPIC = "rmq_sys_SYNC_BROKER_MEMBER_a"  # a broker asks for the route of its own group with it

_LENGTHS = struct.Struct(">ii")
_NOTICE_S, _CHANGE_S = 5.0, 20.0

Answer = dict[str, Any]


class Session:
    """One run of a script: its brokers, and all answers so far."""

    def __init__(self, namesrv: str, stack: ExitStack) -> None:
        self.namesrv = namesrv
        self.answers: list[list[Any]] = []
        self._stack = stack
        self._names: dict[str, str] = {}  # address -> name of the broker
        self._asking = self.connect()

    def connect(self) -> socket.socket:
        """Open a connection to the name server."""
        host, _, port = self.namesrv.rpartition(":")
        return self._stack.enter_context(socket.create_connection((host, int(port)), timeout=10))

    def broker(self, broker_id: int, name: str = "a", **fields: str) -> Broker:
        """Create a broker that listens for notices; it is not registered yet."""
        broker = Broker(self, broker_id, name, fields)
        self._stack.callback(broker.leave)
        self._names[broker.address] = f"{name}{broker_id}" + "'" * sum(
            each.startswith(f"{name}{broker_id}") for each in self._names.values()
        )
        return broker

    def ask(self, step: str, code: int, body: Any = None, **fields: str) -> Answer:
        """Send a request over a connection of no broker, and note the answer."""
        return self.note(step, _request(self._asking, code, fields, body))

    def note(self, step: str, answer: Answer) -> Answer:
        self.answers.append([step, self.named(answer)])
        return answer

    def look(self, step: str) -> None:
        """Note the routes, the members and the cluster as they are now."""
        for topic in ("T", MEMBERS_TOPIC):
            self.ask(f"{step}: route of {topic}", 105, topic=topic)
        self.ask(f"{step}: members", 901, clusterName="C", brokerName="a")
        self.ask(f"{step}: cluster", 106)

    def until_addresses(self, *ids: int) -> None:
        """Wait until the name server lists exactly these ids of broker name ``a``."""

        def reached() -> bool:
            group = _request(self._asking, 901, {"clusterName": "C", "brokerName": "a"}, None)["body"]
            return set(group["brokerMemberGroup"]["brokerAddrs"]) == {str(each) for each in ids}

        wait_until(reached, f"group of the ids {ids}", _CHANGE_S)

    def notices(self, step: str, **expected: tuple[Broker, int]) -> None:
        """Note the notices that each broker has received since the last call, waiting for the number expected."""
        for name, (broker, count) in expected.items():
            wait_until(lambda b=broker, n=count: len(b.notices) >= n, f"{count} notices at {name}: {step}", _NOTICE_S)
            self.answers.append([f"{step}: notices to {name}", self.named(broker.notices)])
            broker.notices = []

    def named(self, answer: Any) -> Any:
        """Replace addresses by names of brokers, and sort what Java sends in hash order."""
        text = json.dumps(answer, sort_keys=True)
        return _sorted(json.loads(re.sub(r"127\.0\.0\.1:\d+", lambda found: self._names[found[0]], text)))


class Broker:
    """A broker of the script: a connection to the name server, and a listening socket that collects notices."""

    def __init__(self, session: Session, broker_id: int, name: str, fields: dict[str, str]) -> None:
        self.id, self.name, self._session, self._fields = broker_id, name, session, fields
        self.notices: list[dict[str, str]] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connection: socket.socket | None = None
        self._listening = threading.Thread(target=self._listen, daemon=True)
        self._listening.start()

    def register(
        self, step: str, topics: tuple[str, ...] = ("T", "U", MEMBERS_TOPIC), *, version: int = 1, state: int = 0
    ) -> None:
        """Register with all *topics*, and note the answer."""
        data_version = {"counter": version, "stateVersion": state, "timestamp": 7}
        table = {topic: _topic(topic) for topic in topics}
        body = {
            "filterServerList": [],
            "topicConfigSerializeWrapper": {"dataVersion": data_version, "topicConfigTable": table},
        }
        self._session.note(step, self._ask(103, body, haServerAddr=f"ha-{self.name}{self.id}", **self._fields))

    def query_version(self, step: str, version: int, state: int = 0) -> None:
        """Ask whether the data version has changed (322)."""
        self._session.note(step, self._ask(322, {"counter": version, "stateVersion": state, "timestamp": 7}))

    def heartbeat(self, step: str) -> None:
        """Send a heartbeat (904)."""
        self._session.note(step, self._ask(904))

    def unregister(self, step: str) -> None:
        """Unregister (104)."""
        self._session.note(step, self._ask(104))

    def close(self) -> None:
        """Close the connection to the name server, as a killed broker."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def leave(self) -> None:
        """Close everything."""
        self.close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listening.join()
        self._listener.close()

    def _ask(self, code: int, body: Any = None, **fields: str) -> Answer:
        if self._connection is None:
            self._connection = self._session.connect()
        own = {"brokerName": self.name, "brokerAddr": self.address, "clusterName": "C", "brokerId": str(self.id)}
        return _request(self._connection, code, {**own, **fields}, body)

    def _listen(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._receive, args=(connection,), daemon=True).start()
        except OSError:  # closed
            return

    def _receive(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while (frame := _read(stream)) is not None:
                header = frame[0]
                assert (header["code"], header["flag"] & 2) == (905, 2), header
                self.notices.append(header["extFields"])


def play(namesrv: str, script: Callable[[Session], None]) -> list[list[Any]]:
    """Run *script* at a name server and return its answers, in order."""
    with ExitStack() as stack:
        session = Session(namesrv, stack)
        script(session)
        return session.answers


def recorded(path: Path) -> dict[str, list[Any]]:
    """Return the answers that a run wrote, by the name of their script."""
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def acting_master(session: Session) -> None:
    """Three brokers that may act as master: who leads, who is told, and what routes show."""
    zero, one, two = (session.broker(i, enableActingMaster="true", heartbeatTimeoutMillis="60000") for i in range(3))
    one.register("a slave before its master", ("T",))
    one.register("the slave with all topics")
    session.look("a slave alone")
    session.notices("a first broker", one=(one, 0))
    zero.register("the master")
    session.look("master and slave")
    session.notices("a smaller id joins", zero=(zero, 0), one=(one, 1))
    one.register("the slave again")
    two.register("the second slave", ("T", "V"))
    session.look("master and two slaves")
    session.notices("a larger id joins", zero=(zero, 0), one=(one, 0), two=(two, 0))
    zero.close()
    session.until_addresses(1, 2)
    session.notices("the master is gone", one=(one, 1), two=(two, 1))
    session.look("two slaves")
    one.register("the prime slave", version=2)
    two.register("the slave of an acting master", ("T", "V"), version=2)
    session.look("an acting master")
    two.unregister("the second slave leaves")
    session.until_addresses(1)
    session.notices("the largest id leaves", one=(one, 0))
    two.register("the second slave is back", ("T", "V"), version=2)
    zero.register("the master is back")
    session.notices("the master is back", zero=(zero, 0), one=(one, 1), two=(two, 1))
    session.look("the master is back")
    one.register("its slave", version=2)
    zero.unregister("the master unregisters")
    session.until_addresses(1, 2)
    session.notices("the master unregistered", one=(one, 1), two=(two, 1))
    one.close()
    session.until_addresses(2)
    session.notices("two left", two=(two, 1))
    two.register("the last one, prime now", ("T", "V"), version=2)
    session.look("the last one")
    two.close()
    session.until_addresses()
    session.look("nobody")


def ids_and_versions(session: Session) -> None:
    """Brokers that cannot act: ids that move and clash, versions, topics deleted under a slave, permissions."""
    zero, one, other = session.broker(0), session.broker(1), session.broker(0)
    zero.register("the master", ("T", "U"), state=3)
    one.register("its slave", ("T", "U", "V"))
    session.look("master and slave")
    for each, step in ((zero, "master"), (one, "slave"), (other, "unknown")):
        each.query_version(f"the same version, {step}", 1, 3 if each is zero else 0)
        each.query_version(f"another version, {step}", 2)
        each.heartbeat(f"heartbeat of the {step}")
    other.register("a claim of id 0 with an older state", ("T", "U"), state=2)
    session.look("an older claim")
    other.register("a claim of id 0 with a newer state", ("T", "W"), state=4)
    session.look("a newer claim")
    zero.register("the old master", ("T", "U"), version=2, state=3)
    one.register("the slave again", ("T", "U", "V"))
    session.look("the newer claim stays")
    session.ask("permission wiped", 205, brokerName="a")
    session.look("without permission")
    other.register("the same version", ("T", "W"), state=4)
    session.ask("still without permission", 105, topic="T")
    other.register("a new version", ("T", "W"), version=2, state=4)
    session.ask("permission is back", 105, topic="T")
    session.ask("wiped again", 205, brokerName="a")
    session.ask("added", 327, brokerName="a")
    session.ask("permission added", 105, topic="T")
    session.ask("deleted in another cluster", 216, topic="T", clusterName="D")
    session.ask("is still there", 105, topic="T")
    session.ask("deleted in its cluster", 216, topic="T", clusterName="C")
    one.register("a slave cannot bring it back", ("T", "U", "V"), version=3)
    session.ask("is gone", 105, topic="T")
    other.register("its master brings it back", ("T", "W"), version=2, state=4)
    session.ask("is back", 105, topic="T")
    session.ask("deleted everywhere", 216, topic="W")
    session.ask("the other is gone", 105, topic="W")
    other.close()
    session.until_addresses(1)
    session.look("a slave that may not act")
    one.register("without a master", ("T", "U", "V"), version=4)
    session.look("its topics stay its master's")
    one.id = 0
    one.register("promoted at its address", ("T", "U", "V"), version=5, state=5)
    session.look("promoted")
    session.notices("without acting masters", zero=(zero, 0), one=(one, 1), other=(other, 0))
    one.close()
    session.until_addresses()


def silence(session: Session) -> None:
    """A master that keeps its connection and sends nothing is gone after its own timeout; its slave is told."""
    zero = session.broker(0, enableActingMaster="true", heartbeatTimeoutMillis="600")
    one = session.broker(1, enableActingMaster="true", heartbeatTimeoutMillis="60000")
    zero.register("the master")
    one.register("its slave")
    session.until_addresses(1)
    session.notices("silence", one=(one, 1))
    session.look("silence")
    one.unregister("the slave leaves")
    session.until_addresses()


SCRIPTS = {each.__name__: each for each in (acting_master, ids_and_versions, silence)}


def _topic(name: str) -> dict[str, Any]:
    counts = {"readQueueNums": 4, "writeQueueNums": 4, "perm": 6}
    return {"topicName": name, **counts, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False}


def _request(connection: socket.socket, code: int, fields: dict[str, str], body: Any) -> Answer:
    header = {"code": code, "language": "JAVA", "version": 479, "opaque": 1, "flag": 0, "extFields": fields}
    head = json.dumps({**header, "serializeTypeCurrentRPC": "JSON"}).encode()
    payload = b"" if body is None else json.dumps(body).encode()
    connection.sendall(_LENGTHS.pack(4 + len(head) + len(payload), len(head)) + head + payload)
    with connection.makefile("rb") as stream:
        frame = _read(stream)
    assert frame is not None, f"the name server closed the connection: {code}"
    header, payload = frame
    known = {"code": header["code"], "ext": header.get("extFields") or {}}
    if header["code"] == 17:  # the words of other refusals are ours
        known["remark"] = (header.get("remark") or "").partition("\n")[0]
    return {**known, "body": json.loads(json.dumps(loads(payload))) if payload else None}


def _read(stream: Any) -> tuple[dict[str, Any], bytes] | None:
    lengths = stream.read(_LENGTHS.size)
    if len(lengths) < _LENGTHS.size:
        return None
    length, split = _LENGTHS.unpack(lengths)
    frame = stream.read(length - 4)
    return json.loads(frame[: split & 0xFFFFFF]), frame[split & 0xFFFFFF :]


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


if __name__ == "__main__":
    found = {name: play(sys.argv[1], script) for name, script in SCRIPTS.items()}
    Path(sys.argv[2]).write_bytes(gzip.compress(json.dumps(found, sort_keys=True).encode(), 9, mtime=0))
