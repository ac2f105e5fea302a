"""A broker in a thread of this process, and a peer that sends it arbitrary bytes."""

from __future__ import annotations

import asyncio
import logging
import queue
import socket
import struct
import sys
import threading
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gantrymq.broker import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.config import Settings
from gantrymq.plugins import load_plugins
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, decode, encode
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.world.real import real_world
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings

DEADLINE_S = 30.0
PROGRAM = Path(sys.executable).parent / "gantrymq"
LOG_FILE_BYTES = 16 * 1024 * 1024
START = ("start", "--namesrv-port", 0, "--broker-port", 0)
FAST = {"listenPort": 0, "bindAddress": "127.0.0.1", "plugins": "diagnosis,filter_tag,storage_mmap"}


class Peer:
    """One connection that sends raw bytes or commands, and reads frames with a deadline."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=DEADLINE_S)
        self.name = "{}:{}".format(*self.socket.getsockname())
        self._decoder = FrameDecoder()
        self._answers: list[Command] = []

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_to_end(self) -> bytes:
        """Everything until the other side closes."""
        pieces = []
        try:
            while piece := self.socket.recv(65536):
                pieces.append(piece)
        except ConnectionResetError:  # it closed with bytes of ours unread
            pass
        return b"".join(pieces)

    def is_closed(self) -> bool:
        """Wait for the other side to close; return False if it sends something first."""
        return self.read_to_end() == b""

    def answer(self) -> Command:
        """The next frame."""
        while not self._answers:
            data = self.socket.recv(65536)
            assert data, "closed without an answer"
            self._answers += [decode(frame) for frame in self._decoder.feed(data)]
        return self._answers.pop(0)

    def ask(
        self, code: int, ext: Mapping[str, object] | None = None, body: bytes | None = None, *, oneway: bool = False
    ) -> Command:
        """Send a request and return its answer; a oneway one must get none, so the answer is to a second request."""
        fields = {name: str(value) for name, value in (ext or {}).items()}
        if oneway:
            self.write(encode(Command(code, opaque=6, flag=2, ext=fields, body=body)))
            return self.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        self.write(encode(Command(code, opaque=7, ext=fields, body=body)))
        while not (answer := self.answer()).is_response:
            pass  # a notice of the broker
        assert answer.opaque == 7
        assert answer.is_response
        return answer

    def send(self, topic: str, body: bytes | None = b"x", properties: str = "", **letters: object) -> Command:
        """A send of the second form (310); *letters* replace its fields."""
        fields = {"a": "PG", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "i": properties}
        return self.ask(RequestCode.SEND_MESSAGE_V2, {**fields, **letters}, body)

    def pull(self, topic: str, **fields: object) -> Command:
        """A pull that carries its own subscription and does not wait; *fields* replace its fields."""
        usual = {
            "consumerGroup": "CG",
            "topic": topic,
            "queueId": 0,
            "queueOffset": 0,
            "maxMsgNums": 32,
            "sysFlag": 4,
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 1,
        }
        return self.ask(RequestCode.PULL_MESSAGE, {**usual, **fields})

    def create_topic(self, topic: str, **fields: object) -> Command:
        """A request of an operator to create *topic* with one queue; *fields* replace its fields."""
        usual = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": 1,
            "writeQueueNums": 1,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "order": "false",
        }
        return self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**usual, **fields})


class Running:
    """Servers in a thread with its own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.world = real_world(worker_threads=2)
        self.server: BrokerServer | NameServer | None = None
        self.address = ("", 0)
        self._serving = 0

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run *work* on the servers' loop and wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_S)

    def close(self) -> None:
        """Stop the server and the thread."""
        try:
            if self.server is not None:
                self.run(self.server.stop())
            self.run(self.world.workers.close())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    @contextmanager
    def peer(self) -> Iterator[Peer]:
        """A connection to the server."""
        peer = Peer(self.address)
        try:
            yield peer
        finally:
            peer.socket.close()

    def serves(self) -> bool:
        """Whether a normal send and a normal pull work, on a new connection."""
        self._serving += 1
        body = f"message {self._serving}".encode()
        with self.peer() as peer:
            if isinstance(self.server, NameServer):
                return peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
            assert peer.create_topic("StillServing").code == 0
            sent = peer.send("StillServing", body)
            assert sent.code == 0, sent.remark
            pulled = peer.pull("StillServing", queueOffset=sent.ext["queueOffset"], consumerGroup="TOOLS_CONSUMER")
            assert pulled.code == 0, pulled.remark
            return body in pulled.payload


def start_broker(store: Path, **given: object) -> Running:
    """A broker on a free port, without a name server. Raises the exceptions of its start."""
    running = Running()
    try:
        plugins = load_plugins(str(given.get("plugins", FAST["plugins"])), reserved=SCHEMA)
        settings = Settings([*SCHEMA, *plugins.config])
        values = {**FAST, "storePathRootDir": store, "mappedFileSizeCommitLog": LOG_FILE_BYTES, **given}
        for key, value in values.items():
            settings.set(key, value if isinstance(value, bool) else str(value), "test")
        running.server = BrokerServer(running.world, settings, plugins)
        running.run(running.server.start())
        running.address = running.server.address
    except BaseException:
        running.close()
        raise
    return running


def start_name_server(folder: Path) -> Running:
    """A name server on a free port."""
    running = Running()
    settings = Settings(name_server_settings(folder))
    settings.set("listenPort", 0, "test")
    settings.set("bindAddress", "127.0.0.1", "test")
    settings.set("scanNotActiveBrokerInterval", 3_600_000, "test")  # fictitious "brokers" stay silent
    running.server = NameServer(running.world, settings)
    running.address = running.run(running.server.start())
    return running


class Sentences(logging.Handler):
    """Collects log records as they are written, for a test to wait for."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._records: queue.Queue[logging.LogRecord] = queue.Queue()
        self.seen: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._records.put(record)

    def wait_for(self, beginning: str) -> str:
        """The next sentence with this prefix."""
        while True:
            record = self._records.get(timeout=DEADLINE_S)
            self.seen.append(record)
            if record.getMessage().startswith(beginning):
                return record.getMessage()

    def errors(self) -> list[str]:
        """Everything so far that counts as our own mistake: logged as an error or with a traceback."""
        while not self._records.empty():
            self.seen.append(self._records.get())
        return [each.getMessage() for each in self.seen if each.levelno >= logging.ERROR or each.exc_info]


def frame(header: bytes, body: bytes = b"", *, codec: int = 0, header_bytes: int | None = None) -> bytes:
    """A frame of any header; *header_bytes* is the header length that it announces."""
    claimed = len(header) if header_bytes is None else header_bytes
    return struct.pack(">II", 4 + len(header) + len(body), codec << 24 | claimed) + header + body
