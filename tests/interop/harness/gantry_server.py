"""GantryMQ as a user starts it: the command line, in a separate process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pytest

from harness.process import Process

READY_S = 30.0
COMMAND_S = 30.0
# Log files of the default 1 GiB are allocated when brokers start: the stores of a whole run would fill the disk.
# A disk above the default of 75 % is the machine's, and no reason to delete what a test wrote.
SETTINGS = {"mappedFileSizeCommitLog": "67108864", "diskMaxUsedSpaceRatio": "95"}


class GantryServer(Process):
    """A `gantrymq` server; ready and registered when the constructor returns.

    Create it with `both`, `name_server` or `broker`. `ready` is the line that it printed; access to an address that
    this process does not have is a KeyError.
    """

    def __init__(
        self,
        command: str,
        scratch: Path,
        *options: str,
        environ: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> None:
        """*under*: a command that runs the program in its place, such as ``ip netns exec NAME``."""
        words: list[str | os.PathLike[str]] = [*under, _program(), command, *options, "--output", "json"]
        super().__init__(f"gantrymq-{command}", words, scratch, {**_environment(scratch), **(environ or {})})
        found = self.wait_for_start(lambda p: [e for e in p.events if e.get("ready")], "ready line", READY_S)
        self.ready: dict[str, Any] = found[0]

    @property
    def namesrv(self) -> str:
        """HOST:PORT of its name server."""
        return str(self.ready["namesrv"])

    @property
    def broker_address(self) -> str:
        """HOST:PORT of its broker."""
        return str(self.ready["broker"])

    @property
    def store(self) -> Path:
        """The broker's store folder."""
        return Path(self.ready["store"])

    @classmethod
    def both(
        cls,
        scratch: Path,
        *,
        store: Path | None = None,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        like: Mapping[str, Any] | None = None,
    ) -> Self:
        """Start name server and broker in one process, on free ports, or on those of the ready line *like*."""
        folder = store or scratch / "store"
        namesrv, broker = (_port(like, each) for each in ("namesrv", "broker"))
        ports = ("--namesrv-port", namesrv, "--broker-port", broker)
        own = _sets({**SETTINGS, **(settings or {})})
        return cls("start", scratch, "--store", str(folder), *ports, *own, environ=environ)

    @classmethod
    def name_server(
        cls,
        scratch: Path,
        *,
        port: int = 0,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Self:
        """Start a name server on a loopback port, by default a free one."""
        conf = _write(
            scratch / "namesrv.conf", {"bindAddress": "127.0.0.1", "kvConfigPath": str(scratch / "kvConfig.json")}
        )
        options = ("-c", str(conf), "--port", str(port), *_sets(settings))
        return cls("nameserver", scratch, *options, environ=environ, under=under)

    @classmethod
    def broker(
        cls,
        scratch: Path,
        namesrv: str,
        *,
        settings: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        under: Sequence[str] = (),
    ) -> Self:
        """Start a broker that registers with *namesrv*, on a free loopback port."""
        conf = _write(
            scratch / "broker.conf",
            {
                "brokerClusterName": "DefaultCluster",
                "brokerName": "broker-a",
                "brokerId": "0",
                "brokerIP1": "127.0.0.1",
                "bindAddress": "127.0.0.1",
                "listenPort": "0",
                "namesrvAddr": namesrv,
                "storePathRootDir": str(scratch / "store"),
            },
        )
        return cls(
            "broker", scratch, "-c", str(conf), *_sets({**SETTINGS, **(settings or {})}), environ=environ, under=under
        )


def gantrymq(scratch: Path, *words: str, environ: Mapping[str, str] | None = None) -> Any:
    """Run a `gantrymq` command with additional environment variables and return its JSON output.

    Raises:
        RuntimeError: the exit code is not 0.
    """
    done = subprocess.run(
        [_program(), *words, "--output", "json"],
        env={**_environment(scratch), **(environ or {})},
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"gantrymq {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def _program() -> Path:
    program = Path(sys.executable).parent / "gantrymq"
    if not program.exists():
        pytest.skip("the interop tests need `gantrymq` installed beside the Python that runs them")
    return program


def _environment(scratch: Path) -> dict[str, str]:
    """Return an environment without the user's settings and home, where some files are by default.

    The user decides whether compiled functions are used.
    """
    own = {name: os.environ[name] for name in ("PATH", "GANTRYMQ_SPEEDUPS") if name in os.environ}
    return {**own, "HOME": str(scratch)}


def _port(ready: Mapping[str, Any] | None, name: str) -> str:
    return "0" if ready is None else str(ready[name]).rpartition(":")[2]


def _sets(settings: Mapping[str, str] | None) -> list[str]:
    return [word for key, value in (settings or {}).items() for word in ("--set", f"{key}={value}")]


def _write(path: Path, settings: Mapping[str, str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path
