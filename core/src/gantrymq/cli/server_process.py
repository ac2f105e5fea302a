"""What a command sets up for a server's process: descriptors, garbage collection, logs."""

from __future__ import annotations

import contextlib
import gc
import logging
import logging.handlers
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

MAX_DESCRIPTORS = 1_048_576  # more than this buys nothing and slows down what closes them all
LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def give_way_sooner() -> None:
    """Have threads that compute give the event loop the interpreter's lock back within half a millisecond.

    With Python's 5 ms each call of the system that the loop makes beside such a thread takes 5 ms: 64 files written in
    one step made it one of 300 ms.
    """
    sys.setswitchinterval(0.0005)


def collect_only_young() -> None:
    """While a server starts, look for cycles among new objects only: what it loads stays for as long as it runs.

    With tens of thousands of queues each full collection stopped the start for 50 ms.
    """
    gc.set_threshold(10_000, 1_000_000, 1_000_000)


def collect_less_often() -> None:
    """Leave what a server is made of out of garbage collections, and collect a tenth as often.

    Messages on their way are freed when nobody refers to them any more; looking for cycles among them, some hundred at
    a time, took 8 % of a send, and a full collection stopped a server for milliseconds.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


def raise_descriptor_limit() -> None:
    """Lift the soft limit of open files to the hard one: sockets and queue files count against it."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def log_options(level: str = "info") -> Callable[[F], F]:
    """Add ``--log-level``, *level* by default, and ``--log-file``; the command passes both to `set_up_logs`."""

    def add(command: F) -> F:
        command = click.option("--log-file", metavar="PATH", help="Append logs to this file instead of stderr.")(
            command
        )
        return click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default=level,
            show_default=True,
            help="How much to log.",
        )(command)

    return add


def set_up_logs(level: str, file: str | None) -> None:
    """Log to stderr, or to *file*; the file is opened again after somebody moved it away.

    Raises:
        click.BadParameter: the file cannot be opened.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            handler = logging.handlers.WatchedFileHandler(file, encoding="utf-8")
        except OSError as problem:
            raise click.BadParameter(f"cannot open {file}: {problem.strerror}", param_hint="--log-file") from problem
    handler.setFormatter(logging.Formatter(LOG_FORMAT))
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
