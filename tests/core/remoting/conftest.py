"""A manual clock, a recording transport, real loopback sockets on free ports, and certificates."""

from __future__ import annotations

import asyncio
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from certificates import make_certificate
from manual_clock import ManualClock

from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.connection import Connection
from gantrymq.remoting.frame import FrameDecoder
from gantrymq.remoting.limits import Limits, UnfinishedFrames, UnwrittenBytes
from gantrymq.world import World
from gantrymq.world.real.network import RealNetwork

# Makes `import loop_tests` work in every import mode of pytest.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))


class RecordingTransport(asyncio.Transport):
    """Transport that keeps written data until `drain` and pauses above the high-water mark like asyncio."""

    def __init__(self, peer: tuple[str, int] = ("10.0.0.9", 4711)) -> None:
        super().__init__({"peername": peer})
        self.protocol: Connection | None = None
        self.writes: list[bytes] = []
        self.held = 0
        self.slow = False
        self.reading, self.closing, self.aborted, self.lost = True, False, False, False
        self.high = self.low = 0
        self.paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high, self.low = high or 0, low or 0

    def get_write_buffer_size(self) -> int:
        return self.held

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))
        if self.slow:
            self.held += len(data)
            if self.held > self.high and not self.paused:
                self.paused = True
                self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def drain(self, size: int) -> None:
        self.held -= size
        if self.paused and self.held <= self.low:
            self.paused = False
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True
        asyncio.get_running_loop().call_soon(self._lose)

    def abort(self) -> None:
        self.aborted = True
        self.close()

    def _lose(self) -> None:
        if not self.lost:
            self.lost = True
            self.protocol.connection_lost(None)

    @property
    def commands(self) -> list[Command]:
        return [decode(frame) for frame in FrameDecoder().feed(b"".join(self.writes))]


class Recorder:
    """Handler that records its requests; `answer` may reply."""

    def __init__(self, answer: Callable[[Connection, Command], None] | None = None) -> None:
        self.batches: list[list[Command]] = []
        self.connections: list[Connection] = []
        self._answer = answer

    @property
    def seen(self) -> list[Command]:
        return [command for batch in self.batches for command in batch]

    def requests(self, connection: Connection, commands: list[Command]) -> None:
        self.batches.append(commands)
        self.connections.append(connection)
        for command in commands:
            if self._answer is not None:
                self._answer(connection, command)


class Rig:
    """Makes connections over recording transports that share one account."""

    def __init__(self, clock: ManualClock, world: World) -> None:
        self.clock, self.world = clock, world
        self.unfinished = UnfinishedFrames(1 << 30)
        self.unwritten = UnwrittenBytes(1 << 30, clock.monotonic)

    def connect(
        self, handler: Any = None, *, sniffing: bool = True, busy_poll: Any = None, admission: Any = None, **limits: Any
    ) -> tuple[Connection, RecordingTransport]:
        connection = Connection(
            self.world,
            handler,
            Limits(**limits),
            self.unfinished,
            self.unwritten,
            sniffing=sniffing,
            busy_poll=busy_poll,
            admission=admission,
        )
        transport = RecordingTransport()
        transport.protocol = connection
        connection.connection_made(transport)
        return connection, transport


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now=1000.0)


@pytest.fixture
def world(clock: ManualClock) -> World:
    nothing: Any = None
    return World(
        clock=clock,
        network=RealNetwork(),
        files=nothing,
        workers=nothing,
        random=random.Random(1),
        process_id=1,
        host_name="test",
    )


@pytest.fixture
def rig(clock: ManualClock, world: World) -> Rig:
    return Rig(clock, world)


@pytest.fixture
def recorder() -> type[Recorder]:
    return Recorder


class Certificates:
    """PEM chains and keys from the openssl command: an authority, certificates signed by it, and an unrelated one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = make_certificate(folder, "authority")
        self.stranger = make_certificate(folder, "stranger")
        self.server, self.client = self._signed("server"), self._signed("client")
        self.odd = self._signed("odd", r"/C=DE/O=Shop/CN=orders, of =the\+ shop/UID=7")
        self.multiple = self._signed("multiple", "/DC=shop/O=Shop+CN=ops/L=A+ST=B")
        self.spaces = self._signed("spaces", "/O=#Shop/OU= x/CN= orders  /L= ")
        self.secret_key = str(folder / "secret.key")
        words = ["-in", "server.key", "-out", "secret.key", "-passout", "pass:open sesame"]
        subprocess.run(["openssl", "pkcs8", "-topk8", *words], cwd=folder, check=True, capture_output=True)

    def key(self, chain: str) -> str:
        return chain.removesuffix(".pem") + ".key"

    def _signed(self, name: str, subject: str = "") -> str:
        return make_certificate(self.folder, name, subject, "authority")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("the tests of TLS need the openssl command")
    return Certificates(tmp_path_factory.mktemp("certificates"))
