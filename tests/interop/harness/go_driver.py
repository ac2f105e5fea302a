"""Runs the program of `go` on `rocketmq-client-go`."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from harness.peers import used
from harness.process import Event, Process
from harness.tools import HERE, cache, filling

SOURCE = HERE / "go"
USUAL_PLACE = Path("/usr/local/go/bin/go")  # where Go's own archives are unpacked to
BUILD_S = 600.0
RUN_S = 90.0


class GoDriver:
    """Starts driver processes against one name server.

    Args:
        scratch: each process gets a home of its own below it.
        namesrv: HOST:PORT.
    """

    def __init__(self, scratch: Path, namesrv: str) -> None:
        used(f"Go {_version()}")
        self._program = _build()
        self._scratch = scratch
        self._namesrv = namesrv
        self._started = 0

    def start(self, command: str, **options: str | int) -> Process:
        """Start a sub-command and return at once. `keys_prefix="k"` becomes `--keys-prefix k`."""
        self._started += 1
        name = f"go-{command}-{self._started}"
        home = self._scratch / name
        home.mkdir(parents=True, exist_ok=True)
        arguments = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        words = [self._program, command, "--namesrv", self._namesrv, *arguments]
        return Process(name, words, home, env={**os.environ, "HOME": str(home)})

    def run(self, command: str, deadline_s: float = RUN_S, **options: str | int) -> list[Event]:
        """Run a sub-command to its end and return its events."""
        return self.start(command, **options).finish(deadline_s)

    def produce(self, topic: str, count: int, mode: str = "sync", **options: str | int) -> list[Event]:
        """Send *count* messages; a failed one is an error. Returns the "sent" events by index."""
        events = self.run("produce", topic=topic, count=count, mode=mode, **options)
        sent = sorted((e for e in events if e["event"] == "sent"), key=lambda e: int(e["index"]))
        assert [e["index"] for e in sent] == list(range(count)), f"sent only {len(sent)} of {count}"
        return sent

    def push(self, topic: str, group: str, **options: str | int) -> Process:
        """Start a push consumer that stays until it is stopped, and return when it is connected."""
        process = self.start("push", topic=topic, group=group, **options)
        process.wait_for(lambda p: p.of("started"), "started")
        return process


def _version() -> str:
    """The client's version that is asked for, such as 2.1.2."""
    found = re.search(r"rocketmq-client-go/v2 v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]


def _build() -> Path:
    """Compile the program into the cache, with the modules that go.mod names."""
    files = sorted([*SOURCE.glob("*.go"), SOURCE / "go.mod", SOURCE / "go.sum"])
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = cache() / f"go-{digest}"
    with filling(target) as folder:
        if folder is not None:
            command = [_compiler(), "build", "-o", folder / "driver", "."]
            done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, timeout=BUILD_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"go build ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return target / "driver"


def _compiler() -> str:
    """The program `go`; the test is skipped, with a sentence, where there is none."""
    found = shutil.which("go") or (str(USUAL_PLACE) if USUAL_PLACE.exists() else None)
    if found is None:
        pytest.skip("the tests of the Go client need `go` (1.19 or newer) on the PATH")
    return found
