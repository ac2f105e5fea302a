"""Process setup of server commands: garbage collection, logs."""

from __future__ import annotations

import gc
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from gantrymq.commands.output import FilledPath
from gantrymq.commands.repeated_lines import bound_repeated_lines

F = TypeVar("F", bound=Callable[..., Any])

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def give_way_sooner() -> None:
    """Make computing threads release the GIL to the event loop within half a millisecond.

    With Python's default of 5 ms, each system call of the loop takes 5 ms while such a thread runs: a step that writes
    64 files took 300 ms.
    """
    sys.setswitchinterval(0.0005)


def collect_only_young() -> None:
    """During startup, collect only young objects, because the loaded objects live as long as the server.

    With tens of thousands of queues each full collection delayed the start by 50 ms.
    """
    gc.set_threshold(10_000, 1_000_000, 1_000_000)


def collect_less_often() -> None:
    """Exclude the server's long-lived objects from garbage collection, and collect a tenth as often.

    Messages are freed by reference counting; searching them for cycles took 8 % of a send, and a full collection
    stopped the server for milliseconds. A collection of the middle generation has at most 50,000 objects: with
    200,000 it took 30 ms.
    """
    gc.freeze()
    gc.set_threshold(10_000, 5, 80)


def log_options(level: str = "info") -> Callable[[F], F]:
    """Add ``--log-level``, with default *level*, and ``--log-file``; the command passes both to `set_up_logs`."""

    def add(command: F) -> F:
        command = click.option(
            "--log-file", type=FilledPath(), metavar="PATH", help="Append logs to this file instead of stderr."
        )(command)
        return click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default=level,
            show_default=True,
            help="How much to log.",
        )(command)

    return add


class PrefixedFormatter(logging.Formatter):
    """Formatter that starts every line, also of a traceback, with a prefix."""

    def __init__(self, prefix: str) -> None:
        super().__init__(LOG_FORMAT)
        self._prefix = prefix

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of *record*."""
        return "\n".join(self._prefix + line for line in super().format(record).split("\n"))


def set_up_logs(level: str, file: str | None, prefix: str = "") -> None:
    """Log to stderr, or to *file*, which is opened again after log rotation; each line starts with *prefix*.

    Repeated lines are bounded (`gantrymq.commands.repeated_lines`).

    Raises:
        click.BadParameter: the file cannot be opened.
    """
    handler: logging.Handler
    if file is None:
        handler = logging.StreamHandler(sys.stderr)
    else:
        try:
            from logging.handlers import WatchedFileHandler  # with pickle and queue

            handler = WatchedFileHandler(file, encoding="utf-8")
        except OSError as problem:
            raise click.BadParameter(f"cannot open {file}: {problem.strerror}", param_hint="--log-file") from problem
    handler.setFormatter(PrefixedFormatter(prefix) if prefix else logging.Formatter(LOG_FORMAT))
    bound_repeated_lines(handler)
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
        old.close()
    root.addHandler(handler)
    root.setLevel(level.upper())
