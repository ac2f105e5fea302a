"""Driver programs of several languages with the same sub-commands, options and events."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.process import Event, Process

RUN_S = 90.0


class ClientDriver:
    """Starts driver processes against one name server. A subclass provides their command line.

    Args:
        scratch: each process gets its own home below it.
        namesrv: HOST:PORT, several separated by semicolons.
        prefix: of the names of processes.
        environ: additional environment variables, such as an account.
    """

    def __init__(self, scratch: Path, namesrv: str, prefix: str, environ: Mapping[str, str] | None = None) -> None:
        self._scratch = scratch
        self._namesrv = namesrv
        self._prefix = prefix
        self._environ = environ or {}
        self._started = 0

    def program(self, command: str, home: Path) -> Sequence[str | Path]:
        """Return the command line before the sub-command."""
        raise NotImplementedError

    def arguments(self, command: str, *flags: str, **options: str | int) -> list[str]:
        """Return a sub-command with its arguments. `keys_prefix="k"` becomes `--keys-prefix k`."""
        words = [word for key, value in options.items() for word in (f"--{key.replace('_', '-')}", str(value))]
        return [command, "--namesrv", self._namesrv, *words, *flags]

    def start(self, command: str, *flags: str, **options: str | int) -> Process:
        """Start a sub-command without waiting for it. The options are those of `arguments`."""
        self._started += 1
        name = f"{self._prefix}{command}-{self._started}"
        home = self._scratch / name
        words = [*self.program(command, home), *self.arguments(command, *flags, **options)]
        return Process(name, words, home, env={**os.environ, **self._environ, "HOME": str(home)})

    def run(self, command: str, *flags: str, deadline_s: float = RUN_S, **options: str | int) -> list[Event]:
        """Run a sub-command to its end and return its events."""
        return self.start(command, *flags, **options).finish(deadline_s)

    def produce(self, topic: str, count: int, mode: str = "sync", **options: str | int) -> list[Event]:
        """Send *count* messages and return the "sent" events by index. A failed send is an error."""
        events = self.run("produce", topic=topic, count=count, mode=mode, **options)
        sent = sorted((e for e in events if e["event"] == "sent"), key=lambda e: int(e["index"]))
        assert [e["index"] for e in sent] == list(range(count)), f"sent only {len(sent)} of {count}"
        return sent

    def push(self, topic: str, group: str, **options: str | int) -> Process:
        """Start a push consumer that runs until it is stopped, and return when it is connected."""
        process = self.start("push", topic=topic, group=group, **options)
        process.wait_for(lambda p: p.of("started"), "started")
        return process
