"""``gantrymq pipeline query``: find messages by key, id, time, SQL92 or Spark SQL, live and archived."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from gantrymq.plugin.commands import DEFAULT_NAMESRV, FilledPath, output_option, print_json, print_table, say
from gantrymq_spark.commands.inputs import check_input, input_options, usage_errors
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_spark.jobs.inputs import Input
from gantrymq_store_tools.findings import counted
from gantrymq_store_tools.target_files import refuse_store_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SHOWN = (
    "topic",
    "brokerName",
    "queueId",
    "queueOffset",
    "storeTimestamp",
    "tags",
    "keys",
    "msgId",
    "body",
    "bodyProblem",
)
_BODY_CHARACTERS = 60
_PROBLEM = "bodyProblem"  # column shown only if a message has one
_VIEW = "messages"


@click.command()
@input_options
@click.option(
    "--live", is_flag=True, help="With --archive: also read the same topics from their brokers, each message once."
)
@click.option("--key", metavar="KEY", help="One of a message's keys.")
@click.option("--unique-key", metavar="ID", help="The id assigned by the client.")
@click.option("--id", "message_id", metavar="ID", help="The offset id, or the client's id.")
@click.option(
    "--where", "condition", metavar="SQL", help='A Spark SQL condition, such as "queueId = 3 and tags is null".'
)
@click.option("--sql", "statement", metavar="SQL", help=f"A Spark SQL statement over the table {_VIEW}.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=100, show_default=True, help="Maximum number of rows to show."
)
@click.option(
    "--to",
    "target",
    type=FilledPath(),
    metavar="FOLDER",
    help="Write all rows to this folder as Parquet instead of showing them.",
)
@spark_options
@output_option
def query(
    given: Input,
    live: bool,
    key: str | None,
    unique_key: str | None,
    message_id: str | None,
    condition: str | None,
    statement: str | None,
    limit: int,
    target: str | None,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Find messages of live topics (--topic), of a store (--store), or of an archive (--archive)."""
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_spark.jobs.query import Search, refuse_live
    from gantrymq_spark.jobs.query import query as work

    check_input(given)
    if target is not None:
        refuse_store_folder(RealFiles(), Path(target))
    if live:
        with usage_errors():
            refuse_live(given)
        given = attrs.evolve(given, namesrv=given.namesrv or DEFAULT_NAMESRV)
    with job_session("query", master, conf) as session:
        search = Search(key, unique_key, message_id, condition)
        columns = None if statement or target or output == "json" else _SHOWN
        found = work(session, given, search, columns, live=live)
        if statement is not None:
            found.createOrReplaceTempView(_VIEW)
            found = session.sql(statement)
        if target is not None:
            found.write.mode("errorifexists").parquet(target)
            click.echo(f"{target}: {counted(session.read.parquet(target).count(), 'row')}")
            return
        _show(found, limit, output)


def _show(found: DataFrame, limit: int, output: str) -> None:
    rows = found.limit(limit + 1).collect()
    if output == "json":
        for row in rows[:limit]:
            print_json(json.loads(json.dumps(row.asDict(recursive=True), default=_plain)))
    else:
        places = [at for at, name in enumerate(found.columns) if name != _PROBLEM or any(row[at] for row in rows)]
        cells = [[_cell(row[at]) for at in places] for row in rows[:limit]]
        print_table([found.columns[at] for at in places], cells)
    if len(rows) > limit:
        say(f"there are more than {limit} rows; --limit shows more, --to writes all of them")


def _cell(value: Any) -> object:
    if isinstance(value, (bytes, bytearray)):
        text = bytes(value[: _BODY_CHARACTERS + 1]).decode("utf-8", "backslashreplace")
        return text if len(text) <= _BODY_CHARACTERS else text[:_BODY_CHARACTERS] + "..."
    return "" if value is None else value


def _plain(value: Any) -> Any:
    """Convert values without a JSON type: bytes to base64, times to text."""
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
