"""`gantrymq start` in its own process, with its CPU time and memory as the kernel reports them."""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HANDED_ON = ("PATH", "GANTRYMQ_SPEEDUPS")  # of the environment
STOP_S = 60.0
MAX_DESCRIPTORS = 65_536


class BrokerProcess:
    """A name server and a broker on free loopback ports; ready when the constructor returns.

    As a context manager it is stopped at the end, and its scratch folder is removed.

    Args:
        settings: of the broker.
        store: the store's folder; a new temporary one if omitted.
        python: options of the interpreter, such as `-m cProfile`.
        scratch: the parent of the temporary folder.
        options: further options of `gantrymq start`.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        store: Path | None = None,
        python: Sequence[str] = (),
        scratch: Path | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gantrymq-load-", dir=scratch)
        folder = Path(self._folder.name)
        self.store = store or folder / "store"
        sets = [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]
        program = Path(sys.executable).parent / "gantrymq"
        command = [sys.executable, *python, str(program), "start", "--store", str(self.store)]
        ports = ["--namesrv-port", "0", "--broker-port", "0"]
        self._log = folder / "broker.err"
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(
                [*command, *ports, *sets, *options, "--output", "json", "--log-level", "warning"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={name: os.environ[name] for name in HANDED_ON if name in os.environ} | {"HOME": str(folder)},
            )
        self.pid = self._child.pid
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._child.wait(STOP_S)
            raise RuntimeError(f"gantrymq start ended with {self._child.returncode}: {self.log()}")
        self.ready: dict[str, Any] = json.loads(line)

    @property
    def address(self) -> str:
        """HOST:PORT of the broker."""
        return str(self.ready["broker"])

    @property
    def alive(self) -> bool:
        return self._child.poll() is None

    def log(self) -> str:
        """The last part of its standard error."""
        return self._log.read_text(errors="replace")[-3000:]

    def cpu_s(self) -> float:
        """Seconds of CPU of all its threads so far, user and system."""
        return cpu_s(self.pid)

    def private_bytes(self) -> int:
        """Resident memory without file pages: the process's own memory, whatever the kernel caches of its store."""
        return memory_bytes(self.pid, "RssAnon")

    def resident_bytes(self) -> int:
        """Resident memory, mapped pages of the store included."""
        return memory_bytes(self.pid, "VmRSS")

    def peak_bytes(self) -> int:
        """The most that was ever resident, mapped pages of the store included."""
        return memory_bytes(self.pid, "VmHWM")

    def stop(self) -> None:
        """Stop it cleanly.

        Raises:
            RuntimeError: the exit code was not 0.
        """
        if self.alive:
            self._child.send_signal(signal.SIGTERM)
        try:
            code = self._child.wait(STOP_S)
            if code:
                raise RuntimeError(f"gantrymq start ended with {code}: {self.log()}")
        finally:
            self._clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _clear(self) -> None:
        if self.alive:
            self._child.kill()
            self._child.wait(STOP_S)
        if self._child.stdout is not None:
            self._child.stdout.close()
        self._folder.cleanup()


def cpu_s(pid: int) -> float:
    """Seconds of CPU of all threads of a process so far. Source: proc(5), stat, utime and stime."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_bytes(pid: int, name: str) -> int:
    """Memory of a running process by its name in proc(5), status: RssAnon without pages of files, VmRSS, VmHWM."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def raise_descriptor_limit(needed: int) -> int:
    """Raise the soft limit of open files of this process towards *needed*; return the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else hard
    wanted = min(max(needed, soft), most)
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return soft
