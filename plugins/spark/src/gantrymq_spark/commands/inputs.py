"""Options that select the messages of a job."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from gantrymq.errors import ConfigError
from gantrymq.plugin.commands import DEFAULT_NAMESRV, FilledPath, read_time_ms
from gantrymq.plugin.real_world import RealClock
from gantrymq_spark.jobs.inputs import Input, live_texts
from gantrymq_spark.live.starting_offsets import relative_ms

Command = TypeVar("Command", bound=Callable[..., Any])


def _option(name: str, *words: str, **more: Any) -> tuple[str, Callable[[bool], Callable[[Command], Command]]]:
    return name, lambda hidden: click.option(*words, name, hidden=hidden, **more)


_OPTIONS = (
    _option("topics", "--topic", multiple=True, metavar="NAME", help="A topic; may be repeated."),
    _option("pattern", "--topic-pattern", metavar="REGEX", help="Topics whose whole name matches."),
    _option(
        "namesrv",
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        help=f"Name servers of live topics, host:port;host:port; else $NAMESRV_ADDR, then {DEFAULT_NAMESRV}.",
    ),
    _option(
        "store",
        "--store",
        type=FilledPath(),
        metavar="FOLDER",
        help="A store's folder (storePathRootDir) instead of live topics.",
    ),
    _option(
        "archive",
        "--archive",
        type=FilledPath(),
        metavar="FOLDER",
        help="An archive written by `gantrymq pipeline archive`.",
    ),
    _option("since_ms", "--since", metavar="TIME", help="Stored at or after: ms, '2026-11-21 10:00', or -10m."),
    _option("until_ms", "--until", metavar="TIME", help="Stored before."),
    _option("tags", "--tags", metavar="TAGS", help="TagA || TagB."),
    _option("sql92", "--sql92", metavar="EXPRESSION", help="A condition over properties, as in subscriptions."),
    _option("options", "--option", multiple=True, metavar="KEY=VALUE", help="An additional option of the source."),
)


def input_options_without(*refused: str) -> Callable[[Command], Command]:
    """Return a decorator that adds the options; the command receives them as ``given``, an `Input`.

    The help does not list the options *refused*, which the command refuses with a sentence.
    """

    def decorated(command: Command) -> Command:
        @functools.wraps(command)
        def taking(*args: Any, **values: Any) -> Any:
            own = {
                name: values.pop(name) for name in ("topics", "pattern", "namesrv", "store", "archive", "tags", "sql92")
            }
            if own["store"] is None and own["archive"] is None:
                own["namesrv"] = own["namesrv"] or DEFAULT_NAMESRV
            now_ms = RealClock().now_ms()
            since, until = values.pop("since_ms"), values.pop("until_ms")
            given = Input(
                **own,
                since_ms=None if since is None else moment_ms("--since", since, now_ms),
                until_ms=None if until is None else moment_ms("--until", until, now_ms),
                options=_pairs(values.pop("options")),
            )
            return command(*args, given=given, **values)

        for name, option in reversed(_OPTIONS):
            taking = option(name in refused)(taking)
        return taking  # type: ignore[return-value]

    return decorated


input_options = input_options_without()


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ConfigError of the block into wrong usage, exit code 2."""
    try:
        yield
    except ConfigError as problem:
        raise click.UsageError(str(problem)) from None


def check_input(given: Input) -> None:
    """Refuse options that no job can work with, before Spark starts.

    Raises:
        click.UsageError: no source or two, tags or an expression that cannot be read, or an unknown option.
    """
    with usage_errors():
        given.check()
        given.check_filters()
        if given.live:
            from gantrymq_spark.live.options import read_options

            read_options(live_texts(given), streaming=False, environ={})


def moment_ms(option: str, text: str, now_ms: int) -> int:
    """Parse a time of an option, in ms.

    Raises:
        click.BadParameter: *text* is not a time.
    """
    try:
        ago = relative_ms(option, text)
    except ConfigError as problem:
        raise click.BadParameter(str(problem).partition(": ")[2], param_hint=option) from None
    return now_ms - ago if ago is not None else read_time_ms(text, param_hint=option)


def _pairs(given: tuple[str, ...]) -> dict[str, str]:
    for text in given:
        if "=" not in text.lstrip("="):
            raise click.BadParameter(f"{text!r} is not an option; write KEY=VALUE", param_hint="--option")
    return {key.strip(): value for key, _, value in (text.partition("=") for text in given)}
