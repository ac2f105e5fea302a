"""``gantrymq store extract``: print or copy messages of a store."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import click

from gantrymq.plugin.commands import TIMES, FilledPath, local_time, output_option, print_json, say, warn
from gantrymq.plugin.formats import RecordView
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.commands.in_use import IN_USE, warn_if_in_use
from gantrymq_store_tools.commands.options import folder_argument, log_option, time_ms
from gantrymq_store_tools.commands.progress_bar import progress_bar
from gantrymq_store_tools.commands.record_body import text_of, with_body


@click.command()
@folder_argument
@log_option
@click.option("-t", "--topic", metavar="NAME", help="Messages of this topic.")
@click.option("--queue", "queue_id", type=click.IntRange(min=0), metavar="ID", help="Messages of this queue.")
@click.option("--from-offset", type=click.IntRange(min=0), metavar="N", help="From this queue offset on.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Up to and including this queue offset.")
@click.option(
    "--from-log-offset",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="From this offset of the commit log on, such as the end of another copy.",
)
@click.option("--from-time", callback=time_ms, metavar="TIME", help=f"Stored at or after: {TIMES}.")
@click.option("--to-time", callback=time_ms, metavar="TIME", help="Stored at or before.")
@click.option("-k", "--key", metavar="KEY", help="With this unique key, or with this one among its keys.")
@click.option("--tag", metavar="TAG", help="With this tag.")
@click.option("--id", "message_id", metavar="ID", help="The message with this offset message id.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="Maximum number of messages.")
@click.option("--raw", type=FilledPath(path_type=Path), metavar="FILE", help="Write the raw records to this new file.")
@output_option
@click.pass_context
def extract(
    ctx: click.Context,
    root: Path,
    log_folders: tuple[Path, ...],
    topic: str | None,
    queue_id: int | None,
    from_offset: int | None,
    to_offset: int | None,
    from_log_offset: int,
    from_time: int | None,
    to_time: int | None,
    key: str | None,
    tag: str | None,
    message_id: str | None,
    most: int | None,
    raw: Path | None,
    output: str,
) -> None:
    """Print messages directly from the commit log, oldest first; queues and index are not needed.

    With --output json each message is one JSON document a line, with its body as text, or base64 if it is not text.

    Exit code 1: a part of the log could not be read, or nothing was found. 3: a broker has the store open, and
    unreadable parts may be half written.
    """
    from gantrymq.errors import StoreError
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_store_tools.extract import ExtractQuery
    from gantrymq_store_tools.extract import extract as find
    from gantrymq_store_tools.layout import find_layout
    from gantrymq_store_tools.log_reader import LogReader

    open_now = warn_if_in_use(root)
    files = RealFiles()
    reader = LogReader(files, find_layout(files, root, log_folders).log)
    wanted = ExtractQuery(
        topic, queue_id, from_offset, to_offset, from_time, to_time, key, message_id, tag, from_log_offset
    )
    damages: list[LogDamage] = []
    found = 0
    if raw is not None and files.stat(raw) is not None:
        raise StoreError(f"{raw} already exists; name a new file")
    target = files.open(raw, create=True) if raw is not None else None
    at = 0
    try:
        with progress_bar() as progress:
            for record in islice(find(reader, wanted, damages.append, progress=progress), most):
                found += 1
                if target is not None:
                    target.pwrite(record.raw, at)
                    at += record.total_size
                elif output == "json":
                    print_json(with_body(record))
                else:
                    _show(record)
    finally:
        reader.close()
        if target is not None:
            target.datasync()
            target.close()
    damages = [damage for damage in damages if damage.kind != "remains"]
    for damage in damages:
        warn(f"{damage.size} bytes at log offset {damage.log_offset} could not be read: {damage.problem}")
    if target is not None:
        say(f"{found} records of {at} bytes were written to {raw}")
    elif not found:
        say("nothing found")
    ctx.exit(IN_USE if damages and open_now else 1 if damages or not found else 0)


def _show(record: RecordView) -> None:
    stored = local_time(record.store_timestamp)
    properties = record.properties
    marks = "".join(f" {name.lower()}={properties[name]}" for name in ("TAGS", "KEYS") if name in properties)
    where = f"{record.topic}:{record.queue_id} @{record.queue_offset}"
    click.echo(f"{where} {stored}{marks} {text_of(record)}")
