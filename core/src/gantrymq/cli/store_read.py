"""``gantrymq store extract`` and ``dump``: messages out of a store, and single things as their files hold them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from gantrymq.cli.message_shown import body_members, body_text
from gantrymq.cli.output import output_option, print_json, print_table, say, warn
from gantrymq.cli.store_common import IN_USE, folder_argument, log_option, progress_bar, time_ms, warn_if_in_use
from gantrymq.formats.log_walk import LogDamage
from gantrymq.formats.record import RecordView


@click.command()
@folder_argument
@log_option
@click.option("-t", "--topic", metavar="NAME", help="Of this topic.")
@click.option("--queue", "queue_id", type=click.IntRange(min=0), metavar="ID", help="Of this queue.")
@click.option("--from-offset", type=click.IntRange(min=0), metavar="N", help="From this queue offset on.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="Up to this queue offset, included.")
@click.option("--from-time", callback=time_ms, metavar="TIME", help="Stored at or after: a local time, or ms.")
@click.option("--to-time", callback=time_ms, metavar="TIME", help="Stored at or before.")
@click.option("-k", "--key", metavar="KEY", help="With this unique key, or this one among its keys.")
@click.option("--tag", metavar="TAG", help="With this tag.")
@click.option("--id", "message_id", metavar="ID", help="The one at the place this offset message id names.")
@click.option("--max", "most", type=click.IntRange(min=1), metavar="N", help="At most so many.")
@click.option(
    "--raw", type=click.Path(path_type=Path), metavar="FILE", help="Write the records as they are into this new file."
)
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
    from_time: int | None,
    to_time: int | None,
    key: str | None,
    tag: str | None,
    message_id: str | None,
    most: int | None,
    raw: Path | None,
    output: str,
) -> None:
    """Print messages straight from the commit log, oldest first; no queue and no index is needed.

    With --output json each is a JSON document on a line of its own, its body as text, or base64 where it is none.
    Exit code 1: a part of the log could not be read, or nothing was found. 3: a broker has the store open, and what
    could not be read may be half written.
    """
    from gantrymq.errors import StoreError
    from gantrymq.offline.extract import Wanted
    from gantrymq.offline.extract import extract as find
    from gantrymq.offline.layout import find_layout
    from gantrymq.offline.log_reader import LogReader
    from gantrymq.world.real import RealFiles

    open_now = warn_if_in_use(root)
    files = RealFiles()
    reader = LogReader(files, find_layout(files, root, log_folders).log)
    wanted = Wanted(topic, queue_id, from_offset, to_offset, from_time, to_time, key, message_id, tag)
    damages: list[LogDamage] = []
    found = 0
    if raw is not None and files.stat(raw) is not None:
        raise StoreError(f"{raw} is there already; name a new file")
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
                    print_json(_with_body(record))
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
        say(f"{found} records of {at} bytes are in {raw}")
    elif not found:
        say("nothing found")
    ctx.exit(IN_USE if damages and open_now else 1 if damages or not found else 0)


@click.command()
@folder_argument
@log_option
@click.option(
    "--record", "log_offset", type=click.IntRange(min=0), metavar="OFFSET", help="The record at a log offset."
)
@click.option("--queue", metavar="TOPIC:ID", help="Entries of a queue.")
@click.option("--index", "index_file", metavar="NAME", help="Header and entries of an index file.")
@click.option("--checkpoint", is_flag=True, help="The checkpoint.")
@click.option("--from", "first", type=click.IntRange(min=0), metavar="N", help="Begin at this queue offset or entry.")
@click.option("--max", "most", type=click.IntRange(min=1), default=32, show_default=True, help="Entries, at most.")
@output_option
def dump(
    root: Path,
    log_folders: tuple[Path, ...],
    log_offset: int | None,
    queue: str | None,
    index_file: str | None,
    checkpoint: bool,
    first: int | None,
    most: int,
    output: str,
) -> None:
    """Print one thing as its file holds it; without an option, the list of files."""
    from gantrymq.offline import dump as dumping
    from gantrymq.offline.extract import record_at
    from gantrymq.offline.layout import find_layout
    from gantrymq.offline.log_reader import LogReader
    from gantrymq.offline.open_files import OpenFiles
    from gantrymq.world.real import RealFiles

    if sum(each is not None for each in (log_offset, queue, index_file, checkpoint or None)) > 1:
        raise click.UsageError("give one of --record, --queue, --index and --checkpoint")
    files = RealFiles()
    layout = find_layout(files, root, log_folders)
    open_files = OpenFiles(files)
    try:
        if log_offset is not None:
            reader = LogReader(files, layout.log)
            document = _with_body(record_at(reader, log_offset))
            reader.close()
            _show_members(document, output)
        elif queue is not None:
            _show_rows(islice(dumping.queue_rows(layout, open_files, _queue(queue), first), most), output)
        elif index_file is not None:
            header = dumping.index_header(layout, open_files, index_file)
            rows = islice(dumping.index_entries(layout, open_files, index_file, first or 1), most)
            if output == "json":
                print_json({**header, "entries": list(rows)})
            else:
                _show_members(header, output)
                _show_rows(rows, output)
        elif checkpoint:
            _show_members(dumping.checkpoint_fields(files, layout), output)
        else:
            _show_rows(iter(dumping.file_rows(layout)), output)
    finally:
        open_files.close()


# --- showing --------------------------------------------------------------------------------------------------------


def _queue(text: str) -> Any:
    from gantrymq.model.queue import Queue

    topic, mark, number = text.rpartition(":")
    if not mark or not topic or not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not TOPIC:ID", param_hint="--queue")
    return Queue(topic, int(number))


def _body(record: RecordView) -> tuple[bytes, str]:
    """The body as the sender had it, or as it is stored and why."""
    from gantrymq.client.compression import readable

    return readable(record.body, record.sys_flag)


def _with_body(record: RecordView) -> dict[str, Any]:
    from gantrymq.offline.extract import described

    return {**described(record), **body_members(*_body(record))}


def _show(record: RecordView) -> None:
    import time

    stored = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.store_timestamp / 1000))
    properties = record.properties
    marks = "".join(f" {name.lower()}={properties[name]}" for name in ("TAGS", "KEYS") if name in properties)
    where = f"{record.topic}:{record.queue_id} @{record.queue_offset}"
    click.echo(f"{where} {stored}{marks} {body_text(*_body(record))}")


def _show_members(document: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(document)
        return
    for name, value in document.items():
        if value is not None:
            click.echo(f"{name.replace('_', ' '):21} {value}")


def _show_rows(rows: Iterator[dict[str, Any]], output: str) -> None:
    """JSON documents on lines of their own, or a table."""
    if output == "json":
        for row in rows:
            print_json(row)
        return
    held = list(rows)
    if not held:
        say("nothing there")
        return
    columns = list(dict.fromkeys(name for row in held for name in row))
    print_table([name.replace("_", " ") for name in columns], [[row.get(name, "") for name in columns] for row in held])
