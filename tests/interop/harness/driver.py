"""Runs `gantrymq.interop.Driver` (java/client) on one version of the official Java client."""

from collections.abc import Mapping
from pathlib import Path

from harness.jars import JVM, QUICK, driver_archive, driver_class_path
from harness.peers import used
from harness.process import Event, Process

RUN_S = 90.0


class Driver:
    """Starts driver processes against one name server.

    Args:
        version: of `rocketmq-client`.
        scratch: each process gets a home of its own below it.
        namesrv: HOST:PORT, several separated by semicolons.
        properties: of the JVM, such as the client's own timers.
    """

    def __init__(
        self, version: str, scratch: Path, namesrv: str, *, properties: Mapping[str, str] | None = None
    ) -> None:
        used(f"rocketmq-client {version}")
        self.version = version
        self._class_path = driver_class_path(version)
        self._archive = driver_archive(version, self._class_path)
        self._scratch = scratch
        self._namesrv = namesrv
        self._properties = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        self._started = 0

    def start(self, command: str, *flags: str, **options: str | int) -> Process:
        """Start a sub-command and return at once. `keys_prefix="k"` becomes `--keys-prefix k`."""
        self._started += 1
        name = f"{command}-{self._started}"
        home = self._scratch / name
        arguments = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        if command.startswith("bench-"):  # speed is what is measured
            tuning = JVM
        else:
            tuning = (*QUICK, f"-XX:SharedArchiveFile={self._archive}")
        java = [
            *("java", *self._properties, *tuning, f"-Duser.home={home}"),
            *("-Drocketmq.client.localOffsetStoreDir=" + str(home / "offsets"), "-cp", self._class_path),
        ]
        target = ["gantrymq.interop.Driver", command, "--namesrv", self._namesrv]
        return Process(name, [*java, *target, *arguments, *flags], home)

    def run(self, command: str, *flags: str, deadline_s: float = RUN_S, **options: str | int) -> list[Event]:
        """Run a sub-command to its end and return its events."""
        return self.start(command, *flags, **options).finish(deadline_s)

    def produce(self, topic: str, count: int, mode: str = "sync", **options: str | int) -> list[Event]:
        """Send *count* messages; a failed one is an error. Returns the "sent" events by index."""
        events = self.start("produce", topic=topic, count=count, mode=mode, **options).finish(RUN_S)
        sent = sorted((e for e in events if e["event"] == "sent"), key=lambda e: int(e["index"]))
        assert [e["index"] for e in sent] == list(range(count)), f"sent only {len(sent)} of {count}"
        return sent

    def pull(self, topic: str, **options: str | int) -> list[Event]:
        """Read every queue of *topic* from end to end and return the "received" events."""
        events = self.start("pull", topic=topic, **options).finish(RUN_S)
        return [e for e in events if e["event"] == "received"]

    def push(self, topic: str, group: str, **options: str | int) -> Process:
        """Start a push consumer that stays until it is stopped, and return when it is connected."""
        process = self.start("push", topic=topic, group=group, **options)
        process.wait_for(lambda p: p.of("started"), "started")
        return process
