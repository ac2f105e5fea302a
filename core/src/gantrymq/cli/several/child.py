"""The program of a broker's process under ``gantrymq start --brokers``; not for direct use.

Standard input   one line, a JSON document (`Work`); its end means that the supervising process died
Standard output  one line, a JSON document: the ready line with the process's port, or the error of the start
Standard error   logs, each line with the broker's name in front, and output of plugins

If the supervising process dies, the broker stops like at SIGTERM, and is killed if that takes too long.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import attrs

from gantrymq import strict_json
from gantrymq.cli.server_process import set_up_logs
from gantrymq.cli.server_settings import ServerArguments, broker_settings
from gantrymq.cli.serving import Servers, serve
from gantrymq.commands.run import run
from gantrymq.errors import GantryError
from gantrymq.world.real import raise_descriptor_limit, real_world

STOP_LIMIT_S: Final = 45.0  # below TimeoutStopSec of the systemd unit


@attrs.frozen
class Work:
    """The task of a broker's process."""

    name: str
    file: str | None  # the common settings
    own_file: str | None
    pairs: Sequence[Sequence[str]]
    options: dict[str, Sequence[Any]]
    closed: str
    forced: dict[str, Sequence[str]]  # key to value and source, over everything else
    log_level: str
    log_file: str | None

    def servers(self) -> Servers:
        """Return the broker, not started. Raises ConfigError and PluginError."""
        world = real_world()
        arguments = ServerArguments(
            "gantrymq start",
            file=None if self.file is None else Path(self.file),
            pairs=tuple(map(str, self.pairs)),
            options={key: (flag, value) for key, (flag, value) in self.options.items()},
            closed=self.closed,
            own_file=None if self.own_file is None else Path(self.own_file),
        )
        broker = broker_settings(world, arguments)
        for key, (value, source) in self.forced.items():
            broker.settings.set(key, value, source)
        return Servers(world, broker=broker)


def main() -> None:
    """Run the broker until a signal, or the end of the supervising process."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    work = Work(**strict_json.loads(sys.stdin.buffer.readline()))
    threading.Thread(target=_stop_with_parent, args=(os.getpid(), sys.stdin.fileno()), daemon=True).start()
    set_up_logs(work.log_level, work.log_file, prefix=f"{work.name} ")
    raise_descriptor_limit()
    answered = False

    def announce(servers: Servers) -> None:
        nonlocal answered
        answered = True
        os.write(answers, strict_json.dumps({**servers.ready_line(), "port": servers.broker_port}) + b"\n")

    try:
        run(serve(work.servers(), announce))
    except GantryError as problem:
        if answered:
            sys.exit(f"gantrymq: {work.name}: {problem}")
        code = problem.exit_code
        error = {"error": type(problem).__name__, "message": problem.without_advice, "exit_code": code}
        os.write(answers, strict_json.dumps(error) + b"\n")
        sys.exit(code)


def _stop_with_parent(
    process_id: int, pipe: int, kill: Callable[[int, int], object] = os.kill, limit_s: float = STOP_LIMIT_S
) -> None:
    """Wait in a thread for the end of *pipe*, and stop this process. Works also while the event loop is busy."""
    while os.read(pipe, 4096):
        pass
    kill(process_id, signal.SIGTERM)
    threading.Event().wait(limit_s)
    kill(process_id, signal.SIGKILL)


if __name__ == "__main__":
    main()
