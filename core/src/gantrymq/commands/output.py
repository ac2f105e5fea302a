"""Common options and output of commands: ``--output json``, ``-n``, JSON on stdout, everything else on stderr.

``--output json`` prints one JSON document, or one per line for streams. Text for people may contain colours and tables;
scripts must use the JSON.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import click

from gantrymq.model.hosts import parse_address, split_addresses

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_NAMESRV = "127.0.0.1:9876"
PAGE_COLUMNS = 100_000  # width of a table in a file or pipe
LAST_COLUMNS = 40  # minimum width of a table's last column
LONG_ROWS = 500  # longer tables are not printed with rich, which takes 1 ms per row


def output_option(command: Command) -> Command:
    """Add ``--output``; the command receives ``output``, "text" or "json"."""
    return click.option(
        "--output",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="json: documents for scripts on stdout, everything else on stderr.",
    )(command)


def namesrv_option(command: Command) -> Command:
    """Add ``-n`` and ``--tls``; the command receives ``namesrv``, a list like "host:port;host:port".

    TLS options are set in this process's environment, where clients read them, while the command runs.
    """
    command = click.option(
        "--tls",
        is_flag=True,
        expose_value=False,
        callback=_into_environment,
        help="Connect with TLS. Any certificate of a server is accepted, as in RocketMQ, unless tls.client.authServer "
        "is true in the file of --tls-config or in the environment.",
    )(command)
    command = click.option(
        "--tls-config",
        type=FilledPath(dir_okay=False),
        metavar="FILE",
        expose_value=False,
        callback=_into_environment,
        help="Settings tls.client.* (certPath, keyPath, keyPassword, authServer, trustCertPath) and tls.enable, as in "
        "RocketMQ's tls.properties.",
    )(command)
    return click.option(
        "-n",
        "--namesrv",
        metavar="ADDR",
        callback=check_namesrv,
        envvar="NAMESRV_ADDR",
        default=DEFAULT_NAMESRV,
        show_default=True,
        help="Name servers, host:port separated by semicolons; $NAMESRV_ADDR when not given.",
    )(command)


def check_namesrv(_ctx: click.Context, _parameter: click.Parameter, text: str | None) -> str | None:
    """Return the value of an option for name servers. Raises click.BadParameter: one is not host:port."""
    for part in split_addresses(text or ""):
        address = part.rpartition("/")[2]  # clients also strip "http://"
        try:
            if address:
                parse_address(address)
        except ValueError as problem:
            raise click.BadParameter(f"{problem}, such as {DEFAULT_NAMESRV}") from None
    return text


def check_address(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    """Return the value of an option for one server. Raises click.BadParameter: it is not host:port."""
    try:
        if text is not None:
            parse_address(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not host:port") from None
    return text


def _into_environment(ctx: click.Context, parameter: click.Parameter, value: str | bool | None) -> None:
    if value:
        key, text = ("tls.enable", "true") if value is True else ("tls.config.file", str(value))
        set_environment(ctx, key, text)


def set_environment(ctx: click.Context, key: str, value: str) -> None:
    """Set a variable of this process's environment until *ctx* ends."""
    before = os.environ.get(key)
    os.environ[key] = value

    def undo() -> None:
        os.environ.pop(key)
        if before is not None:
            os.environ[key] = before

    ctx.call_on_close(undo)


def print_json(document: Any) -> None:
    """Write *document* as one line of JSON on stdout and flush."""
    from gantrymq import strict_json

    click.echo(strict_json.dumps(document).decode())
    sys.stdout.flush()


def say(sentence: str) -> None:
    """Write a sentence for people on stderr."""
    click.echo(sentence, err=True)


def warn(sentence: str) -> None:
    """Write a warning on stderr."""
    click.echo(f"warning: {sentence}", err=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table for people to stdout.

    Columns are not wrapped, except for the last one on a terminal, between words, unless the table is long.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    if len(cells) > LONG_ROWS and all(cell.isascii() and cell.isprintable() for row in cells for cell in row):
        _print_long_table(columns, cells)
        return

    from rich import box
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    table = Table(*(Column(name, no_wrap=True) for name in columns), box=box.SIMPLE_HEAD, pad_edge=False)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=sys.stdout)
    if sys.stdout.isatty():
        table.columns[-1].no_wrap = False
        widths = [max(map(len, column)) + 3 for column in zip(columns, *cells, strict=True)]
        words = max((len(word) for row in cells for word in row[-1].split()), default=0)
        console.width = max(console.width, sum(widths[:-1]) + max(words, min(widths[-1], LAST_COLUMNS)) + 3)
    else:
        console.width = PAGE_COLUMNS
    console.print(table)


def _print_long_table(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Write a table like rich to a pipe; all characters must be one column wide."""
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    line = " " + "   ".join(f"{{:{width}}}" for width in widths) + " "
    full = sum(widths) + 3 * len(widths) - 1
    rule = "\N{BOX DRAWINGS LIGHT HORIZONTAL}" if (sys.stdout.encoding or "utf-8").lower().startswith("utf") else "-"
    head = (" " * full, line.format(*columns), f" {rule * (full - 2)} ")
    sys.stdout.writelines(f"{each}\n" for each in (*head, *(line.format(*row) for row in cells), " " * full))


class FilledPath(click.Path):
    """A path that is not empty: ``--store "$STORE"`` with an unset variable would mean the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert as `click.Path`. Raises click.BadParameter for an empty path."""
        if not str(value).strip():
            self.fail("the path is empty; a variable in it may not be set", param, ctx)
        return super().convert(value, param, ctx)


def body_text(body: bytes, problem: str) -> str:
    """Return a body as text for people, or a note with the *problem*."""
    return f"(no body can be shown: {problem})" if problem else body.decode("utf-8", "backslashreplace")


def body_members(body: bytes, problem: str) -> dict[str, str]:
    """Return a body for scripts: ``body`` as text, or ``body_base64`` if it is not UTF-8.

    A body with a *problem* is returned as stored in ``body_base64``, with ``body_problem``.
    """
    if problem:
        return {"body_problem": problem, "body_base64": base64.b64encode(body).decode()}
    try:
        return {"body": body.decode("utf-8")}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(body).decode()}
