"""What every job has of Spark: where it runs, its settings, its session, and progress for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["job_session", "spark_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


def spark_options(command: Command) -> Command:
    """Add ``--master`` and ``--conf``; the command gets ``master`` and ``conf``, for `job_session`."""
    command = click.option(
        "--conf",
        multiple=True,
        metavar="KEY=VALUE",
        callback=_settings,
        help="A setting of Spark, such as spark.driver.memory=4g; may be given again.",
    )(command)
    return click.option(
        "--master",
        metavar="URL",
        help="Where Spark runs, such as spark://host:7077, yarn or k8s://...; without it, here, on all cores.",
    )(command)


@contextmanager
def job_session(job: str, master: str | None, conf: dict[str, str]) -> Iterator[SparkSession]:
    """A session while the job runs. Raises ConfigError, as `session.open_session`."""
    from gantrymq_spark.session import open_session

    session = open_session(master, {"spark.log.level": "ERROR", **conf}, name=f"gantrymq {job}")
    try:
        yield session
    finally:
        session.stop()


def _settings(ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise click.BadParameter(f"{text!r} is no setting; write KEY=VALUE, such as spark.driver.memory=4g")
    return {key.strip(): value for key, _, value in (text.partition("=") for text in given)}
