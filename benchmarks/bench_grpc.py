"""Libraries for gRPC servers: CPU of a unary call, memory, and memory after many cancelled and reset calls.

    python benchmarks/bench_grpc.py                     all libraries that are installed
    python benchmarks/bench_grpc.py --of gantrymq_grpc  the plugin's own only

Each library serves in a process of its own (`grpc_servers.py`), and grpcio calls it from another: requests of 1 KB
with the metadata of RocketMQ's clients, with one call and with 64 in flight, in rounds in which the libraries take
turns. The figure is the median of the rounds. Then each gets calls that are cancelled while they are held, and calls
that are reset in the packet that opened them, in batches on many connections.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from arguments import whole
from grpc_servers import SERVICE

HERE: Final = Path(__file__).parent
MODULES: Final = {"gantrymq_grpc": "gantrymq_grpc", "grpcio": "grpc", "grpclib": "grpclib", "h2": "h2"}
IN_FLIGHT: Final = (1, 64)
BATCH: Final = 100  # calls of one connection that are open at a time
GOAL_US: Final = 200
GOAL_MB: Final = 10
METADATA: Final = (
    ("x-mq-client-id", "host@123@0@abcdefgh"),
    ("x-mq-language", "JAVA"),
    ("x-mq-protocol", "GRPC_V2"),
    ("x-mq-client-version", "5.0.8"),
    ("x-mq-namespace", ""),
    ("x-mq-date-time", "20261129T162600Z"),
)


class Server:
    """A library in a process of its own."""

    def __init__(self, library: str) -> None:
        """Start it and wait for its port."""
        command = [sys.executable, str(HERE / "grpc_servers.py"), library]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def cpu_us(self) -> float:
        """CPU time so far."""
        threads = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1000

    def resident_mb(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024


def call(server: Server, in_flight: int, calls: int) -> float:
    """Make *calls* from another process and return the CPU time of the server for each, in us."""
    command = [sys.executable, str(HERE / "bench_grpc.py"), "--load", f"{server.port},{in_flight},{calls}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        load.stdout.readline()  # connected and warm
        before = server.cpu_us()
        load.stdin.write("\n")
        load.stdin.flush()
        load.stdout.readline()
        return (server.cpu_us() - before) / calls


async def load(port: int, in_flight: int, calls: int) -> None:
    """Make a few calls, wait for a line, and make *calls*."""
    from grpc import aio

    async with aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        send = channel.unary_unary(f"/{SERVICE}/SendMessage")
        body = b"x" * 1100

        async def repeat(times: int) -> None:
            for number in range(times):
                signed = (
                    ("x-mq-request-id", f"b5a3{number:08d}-8d8c-4c6a"),
                    (
                        "authorization",
                        "MQv2-HMAC-SHA1 Credential=a, SignedHeaders=x-mq-date-time, Signature=5D3F1E1B5C",
                    ),
                )
                await send(body, metadata=METADATA + signed, timeout=60)

        await repeat(50)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        await asyncio.gather(*(repeat(calls // in_flight) for _ in range(in_flight)))
        print("done", flush=True)


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Return a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def literal(name: bytes, value: bytes) -> bytes:
    """Return a header that uses no table."""
    return b"\0" + bytes((len(name),)) + name + bytes((len(value),)) + value


HELD: Final = b"".join(
    literal(name, value)
    for name, value in (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", f"/{SERVICE}/ReceiveMessage".encode()),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
)
CANCEL: Final = (8).to_bytes(4, "big")


class RawClient:
    """A connection of prepared bytes."""

    def __init__(self, port: int) -> None:
        """Connect and begin."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))

    def send(self, frames: Iterable[bytes]) -> None:
        """Send *frames* and a ping, and wait for its answer: then the server has read them."""
        self._socket.sendall(b"".join(frames) + frame(6, 0, 0, b"bench..."))
        received = b""
        while b"\0\0\x08\x06\x01\0\0\0\0bench..." not in received:
            data = self._socket.recv(1 << 16)
            if not data:
                raise ConnectionError("the server has closed the connection")
            received += data

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def cancel_held(port: int, calls: int) -> None:
    """Open calls that are held, then cancel them, `BATCH` on each connection."""
    for _ in range(calls // BATCH):
        client = RawClient(port)
        streams = range(1, 2 * BATCH, 2)
        client.send(frame(1, 4, each, HELD) + frame(0, 1, each, bytes(5)) for each in streams)
        client.send(frame(3, 0, each, CANCEL) for each in streams)
        client.close()


def reset_opened(port: int, calls: int) -> None:
    """Open calls and reset them in the same packet, `BATCH` on each connection."""
    for _ in range(calls // BATCH):
        client = RawClient(port)
        client.send(frame(1, 4, each, HELD) + frame(3, 0, each, CANCEL) for each in range(1, 2 * BATCH, 2))
        client.close()


def verdict(value: float, goal: float) -> str:
    """The figure, with a mark if it exceeds the goal."""
    return f"{value:.0f}{'' if value <= goal else ' !'}"


def report(libraries: Sequence[str], options: argparse.Namespace) -> None:
    """Measure and print the table."""
    print("| library | us per call, 1 in flight | 64 in flight | resident MB | + after cancelled | + after reset |")
    print("|---|---|---|---|---|---|")
    with ExitStack() as running:
        servers = {library: running.enter_context(Server(library)) for library in libraries}
        costs: dict[tuple[str, int], list[float]] = {}
        for _ in range(options.rounds):
            for library, server in servers.items():
                for in_flight in IN_FLIGHT:
                    calls = options.calls if in_flight > 1 else options.calls // 4
                    costs.setdefault((library, in_flight), []).append(call(server, in_flight, calls))
        for library, server in servers.items():
            single, many = (statistics.median(costs[library, in_flight]) for in_flight in IN_FLIGHT)
            cells = [verdict(single, 1e9), verdict(many, GOAL_US), f"{server.resident_mb():.1f}"]
            for drive in (cancel_held, reset_opened):
                drive(server.port, 10 * BATCH)  # what is allocated once does not count
                before = server.resident_mb()
                try:
                    drive(server.port, options.streams)
                except OSError as error:
                    cells.append(str(error))
                else:
                    cells.append(verdict(server.resident_mb() - before, GOAL_MB))
            print(f"| {library} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", choices=MODULES, default=list(MODULES), help="the libraries")
    parser.add_argument("--calls", type=whole(64), default=6400, help="calls of a round with 64 in flight")
    parser.add_argument("--rounds", type=whole(1), default=3)
    parser.add_argument("--streams", type=whole(BATCH), default=100_000, help="cancelled calls, and reset calls")
    parser.add_argument("--load", help=argparse.SUPPRESS)  # port, calls in flight, calls: the process of the client
    options = parser.parse_args()
    if options.load:
        asyncio.run(load(*map(int, options.load.split(","))))
        return
    missing = [each for each in options.of if find_spec(MODULES[each]) is None]
    if missing:
        print(f"not installed, so left out: {', '.join(missing)}")
    if find_spec("grpc") is None:
        print("nothing was measured: the client is missing, pip install grpcio")
        return
    report([each for each in options.of if each not in missing], options)


if __name__ == "__main__":
    main()
