"""The folder that a job writes its report into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from gantrymq.errors import StoreError
from gantrymq_spark.jobs.inputs import Input

__all__ = ["made_folder", "report_option", "said"]

Command = TypeVar("Command", bound=Callable[..., Any])


def report_option(command: Command) -> Command:
    """Add ``--report``; the command gets ``report``, a path or None."""
    return click.option(
        "--report",
        type=click.Path(file_okay=False, path_type=Path),
        metavar="FOLDER",
        help="Write a report there, with plots.",
    )(command)


def made_folder(folder: Path) -> Path:
    """Make it. Raises StoreError: it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise StoreError(f"--report: {folder} cannot be made: {problem.strerror or problem}") from None
    return folder


def said(given: Input) -> str:
    """Where messages came from, for a report."""
    named = ", ".join(given.topics) or (f"topics like {given.pattern}" if given.pattern else "all topics")
    if given.store is not None:
        return f"The store {given.store}, {named}"
    if given.archive is not None:
        return f"The archive {given.archive}, {named}"
    return f"Live topics, {named}"
