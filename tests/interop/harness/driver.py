"""Runs `gantrymq.interop.Driver` (java/client) on one version of the official Java client."""

from collections.abc import Mapping
from pathlib import Path

from harness.client_driver import ClientDriver
from harness.jars import JVM, QUICK, driver_archive, driver_class_path
from harness.peers import used
from harness.process import Event


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

    def pull(self, topic: str, **options: str | int) -> list[Event]:
        """Read every queue of *topic* from end to end and return the "received" events."""
        events = self.run("pull", topic=topic, **options)
        return [e for e in events if e["event"] == "received"]
