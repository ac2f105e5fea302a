"""Runs our programs for the official SDKs for gRPC: checks, and clients that run until they are stopped."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness.go_driver import build
from harness.jars import JVM, QUICK, sdk_class_path
from harness.node_driver import install
from harness.peers import used
from harness.probe import create_group, create_topic
from harness.process import Event, Process
from harness.tools import HERE, cache, filling

PYTHON = HERE / "python"
INSTALL_S = 300.0
LOAD_START_S = 60.0
MEASURE_S = 600.0
PLAIN, FIFO = ("Normal", "Filter", "Push"), ("Fifo", "Ordered")


class SdkProgram(Process):
    """One of our programs on one SDK, running. Its topics and groups are created by `create_resources`.

    Args:
        sdk: name and version, such as ``python-5.1.2``.
        program: ``checks``, ``members`` or, for Go and Node, ``lite``.
        scratch: its home.
        endpoint: HOST:PORT of the gRPC server.
        prefix: of the names of topics and groups.
    """

    leaves_something = False

    def __init__(self, sdk: str, program: str, scratch: Path, endpoint: str, prefix: str) -> None:
        language, _, version = sdk.rpartition("-")
        command = [*COMMANDS[language](version, program, scratch), endpoint, prefix]
        super().__init__(sdk, command, scratch, env={**os.environ, "HOME": str(scratch)})

    def send(self, text: str, size: int = 0) -> bool:
        """Let `members` send a message of *size* bytes that begins with *text*, and return whether it was sent.

        *size* 0: *text* alone.
        """

        def outcomes(program: Process) -> list[Event]:
            return [event for event in program.of("sent") + program.of("unsent") if event["body"] == text]

        before = len(outcomes(self))
        self.write_line(f"{text} {size}")
        self.wait_for(lambda p: len(outcomes(p)) > before, f"the outcome of a send of {text}")
        return any(event["event"] == "sent" for event in outcomes(self))

    def receivers(self, text: str) -> set[str]:
        """Return which consumers of `members` have received a message with *text*."""
        return {event["by"] for event in self.of("received") if event["body"] == text}


class SdkLoad(Process):
    """The load of the official Java SDK (`gantrymq.interop.SdkLoad`), ready when the constructor returns.

    Args:
        version: of the SDK.
        scratch: its home.
        endpoint: HOST:PORT of the gRPC server.
        topic: to send to and receive from.
    """

    leaves_something = False

    def __init__(self, version: str, scratch: Path, endpoint: str, topic: str) -> None:
        java = ["java", *JVM, "-Xmx768m", f"-Duser.home={scratch}", "-cp", sdk_class_path(version)]
        super().__init__("sdk-load", [*java, "gantrymq.interop.SdkLoad", endpoint, topic], scratch)
        self.wait_for_start(lambda p: p.of("ready"), "a ready client", LOAD_START_S)

    def measure(self, command: str, cpu_s: Callable[[], float]) -> tuple[Event, float]:
        """Run a command; return its report, and how much *cpu_s* grew from the end of the warm-up to the end."""
        warm, measured = len(self.of("warm")), len(self.of("measured"))
        self.write_line(command)
        self.wait_for(lambda p: len(p.of("warm")) > warm, f"the warm-up of {command}", MEASURE_S)
        before = cpu_s()
        report = self.wait_for(lambda p: p.of("measured")[measured:], f"the report of {command}", MEASURE_S)[0]
        return report, cpu_s() - before


def create_resources(namesrv: str, prefix: str) -> None:
    """Create the topics and groups of one run of the checks."""
    for name in PLAIN:
        create_topic(namesrv, prefix + name)
    for name in FIFO:
        create_topic(namesrv, prefix + name, 1, attributes="+message.type=FIFO")
    for name in ("Delay", "Transaction"):
        create_topic(namesrv, prefix + name, attributes=f"+message.type={name.upper()}")
    create_group(namesrv, f"{prefix}fifo", ordered=True)
    for group in ("push", "ordered"):
        create_group(namesrv, prefix + group, retries=1, ordered=group == "ordered")
        create_topic(namesrv, f"%DLQ%{prefix}{group}", 1)


def used_sdk(sdk: str) -> None:
    """Record the SDK as a peer of the running test."""
    language, _, version = sdk.rpartition("-")
    used(f"{PACKAGES[language]} {version}")


def _java(version: str, program: str, home: Path) -> list[str | Path]:
    name = {"checks": "Sdk", "members": "Members"}[program]
    return ["java", *QUICK, f"-Duser.home={home}", "-cp", sdk_class_path(version), f"gantrymq.interop.{name}"]


def _go(version: str, program: str, home: Path) -> list[str | Path]:
    return [build(HERE / "go" / "sdk"), program]


def _node(version: str, program: str, home: Path) -> list[str | Path]:
    return ["node", install(HERE / "node" / "sdk") / f"{program}.js"]


def _python(version: str, program: str, home: Path) -> list[str | Path]:
    """Install the SDK into a virtual environment of its own, since it would change the versions of ours."""
    requirement = f"rocketmq-python-client=={version}"
    text = f"{requirement} {sys.executable} {sys.version}"
    kept = cache() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with filling(kept) as folder:
        if folder is not None:
            _run(sys.executable, "-m", "venv", folder)
            _run(folder / "bin" / "python", "-m", "pip", "install", "--quiet", requirement)
    return [kept / "bin" / "python", PYTHON / f"{program}.py"]


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[1:]} ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")


COMMANDS: dict[str, Callable[[str, str, Path], list[str | Path]]] = {
    "java": _java,
    "python": _python,
    "go": _go,
    "node": _node,
}
PACKAGES = {
    "java": "rocketmq-client-java",
    "python": "rocketmq-python-client",
    "go": "rocketmq-clients/golang",
    "node": "rocketmq-client-nodejs",
}
