"""Runs `gantrymq.interop.Driver` (java/client) on one version of the official Java client."""

import itertools
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.client_driver import RUN_S, ClientDriver
from harness.jars import JVM, QUICK, driver_archive, driver_class_path
from harness.peers import used
from harness.process import Event, Process

SERVED = ("produce", "pull")  # most starts of a driver; the others have clients with names, or stay
MOST_IDLE = 3


class Serving(Process):
    """A driver that runs one command after another: to start Java takes longer than most commands."""

    leaves_something = False

    def run(self, words: Sequence[str], deadline_s: float) -> list[Event]:
        """Run a command to its end and return its events. A command that fails is a RuntimeError."""
        self.events.clear()
        self.write_line("\t".join(words))
        ended = self.wait_for(lambda p: p.of("ended"), f"the end of {words[0]}", deadline_s)[0]
        if not ended["good"]:
            raise RuntimeError(f"{words[0]} ended with an error. {self.tail()}")
        return [event for event in self.events if event is not ended]


class Idle:
    """Serving drivers without a command, by version and properties. They end with this process at the latest.

    Its end closes their standard input.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._folder = tempfile.TemporaryDirectory(prefix="gantrymq-drivers-", ignore_cleanup_errors=True)
        self._found: list[tuple[tuple[str, ...], Serving]] = []

    def home(self) -> Path:
        """Return a new folder, which outlives the folders of tests."""
        return Path(self._folder.name) / str(next(self._numbers))

    def take(self, kind: tuple[str, ...]) -> Serving | None:
        """Return and remove one of *kind*, if there is one."""
        with self._lock:
            found = next((each for each in self._found if each[0] == kind and each[1].alive()), None)
            if found is not None:
                self._found.remove(found)
            return found and found[1]

    def keep(self, kind: tuple[str, ...], process: Serving) -> None:
        """Add one of *kind*; the least recently used one is stopped if there are too many."""
        with self._lock:
            self._found.append((kind, process))
            ended = [each for _, each in self._found[:-MOST_IDLE]]
            del self._found[:-MOST_IDLE]
        for each in ended:
            each.kill()


_idle = Idle()


class Driver(ClientDriver):
    """Starts `gantrymq.interop.Driver`.

    Args:
        version: of `rocketmq-client`.
        scratch: each process gets its own home below it.
        namesrv: HOST:PORT, several separated by semicolons.
        properties: of the JVM, such as the client's own timers.
    """

    def __init__(
        self, version: str, scratch: Path, namesrv: str, *, properties: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(scratch, namesrv, "")
        used(f"rocketmq-client {version}")
        self.version = version
        self._class_path = driver_class_path(version)
        self._archive = driver_archive(version, self._class_path)
        self._properties = [f"-D{name}={value}" for name, value in (properties or {}).items()]

    def program(self, command: str, home: Path) -> list[str]:
        if command.startswith("bench-"):  # speed is measured
            tuning = JVM
        else:
            tuning = (*QUICK, f"-XX:SharedArchiveFile={self._archive}")
        return [
            *("java", *self._properties, *tuning, f"-Duser.home={home}"),
            *("-Drocketmq.client.localOffsetStoreDir=" + str(home / "offsets"), "-cp", self._class_path),
            "gantrymq.interop.Driver",
        ]

    def run(self, command: str, *flags: str, deadline_s: float = RUN_S, **options: str | int) -> list[Event]:
        if command not in SERVED:
            return super().run(command, *flags, deadline_s=deadline_s, **options)
        kind = (self.version, *self._properties)
        process = _idle.take(kind) or self._serving()
        try:
            events = process.run(self.arguments(command, *flags, **options), deadline_s)
        except BaseException:
            process.kill()
            raise
        _idle.keep(kind, process)
        return events

    def _serving(self) -> Serving:
        home = _idle.home()
        words = [*self.program("serve", home), "serve"]
        return Serving("serve", words, home, env={**os.environ, "HOME": str(home)})

    def pull(self, topic: str, **options: str | int) -> list[Event]:
        """Read every queue of *topic* from end to end and return the "received" events."""
        events = self.run("pull", topic=topic, **options)
        return [e for e in events if e["event"] == "received"]
