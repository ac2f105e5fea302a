"""``gantrymq store extract``, ``dump`` and ``stat``: messages, single items and statistics of a store."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from gantrymq.plugin.commands import TIMES, FilledPath, local_time, output_option, print_json, print_table, say, warn
from gantrymq.plugin.formats import RecordView
from gantrymq.plugin.model import Queue
from gantrymq_store_files.log_walk import LogDamage
from gantrymq_store_tools.commands.options import IN_USE, folder_argument, log_option, time_ms, warn_if_in_use
from gantrymq_store_tools.commands.output import text_of, with_body
from gantrymq_store_tools.commands.progress import progress_bar
from gantrymq_store_tools.findings import counted


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


@click.command()
@folder_argument
@log_option
@click.option(
    "--record", "log_offset", type=click.IntRange(min=0), metavar="OFFSET", help="The record at a log offset."
)
@click.option("--queue", metavar="TOPIC:ID", help="Entries of a queue.")
@click.option("--index", "index_file", metavar="NAME", help="Header and entries of an index file.")
@click.option("--checkpoint", is_flag=True, help="The checkpoint.")
@click.option("--from", "first", type=click.IntRange(min=0), metavar="N", help="Start at this queue offset or entry.")
@click.option(
    "--max", "most", type=click.IntRange(min=1), default=32, show_default=True, help="Maximum number of entries."
)
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
    """Print one item as stored in its file; without an option, the list of files."""
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_store_tools import dump as dumping
    from gantrymq_store_tools.extract import record_at
    from gantrymq_store_tools.layout import find_layout
    from gantrymq_store_tools.log_reader import LogReader
    from gantrymq_store_tools.open_files import OpenFiles

    if sum(each is not None for each in (log_offset, queue, index_file, checkpoint or None)) > 1:
        raise click.UsageError("give one of --record, --queue, --index and --checkpoint")
    files = RealFiles()
    layout = find_layout(files, root, log_folders)
    open_files = OpenFiles(files)
    try:
        if log_offset is not None:
            reader = LogReader(files, layout.log)
            document = with_body(record_at(reader, log_offset))
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


def _queue(text: str) -> Queue:
    topic, mark, number = text.rpartition(":")
    if not mark or not topic or not number.isdecimal():
        raise click.BadParameter(f"{text!r} is not TOPIC:ID", param_hint="--queue")
    return Queue(topic, int(number))


def _show_members(document: dict[str, Any], output: str) -> None:
    if output == "json":
        print_json(document)
        return
    for name, value in document.items():
        if value is not None:
            click.echo(f"{name.replace('_', ' '):21} {value}")


def _show_rows(rows: Iterator[dict[str, Any]], output: str) -> None:
    """Print rows as one JSON document a line, or as a table."""
    if output == "json":
        for row in rows:
            print_json(row)
        return
    held = list(rows)
    if not held:
        say("no entries")
        return
    columns = list(dict.fromkeys(name for row in held for name in row))
    print_table([name.replace("_", " ") for name in columns], [[row.get(name, "") for name in columns] for row in held])


@click.command()
@folder_argument
@log_option
@output_option
@click.pass_context
def stat(ctx: click.Context, root: Path, log_folders: tuple[Path, ...], output: str) -> None:
    """Count the contents of the commit log by topic and queue. Writes nothing.

    Exit code 1: the log is damaged. 3: it may be damaged, or a broker that has the store open is writing there.
    """
    from gantrymq.plugin.real_world import RealFiles
    from gantrymq_store_tools.layout import find_layout
    from gantrymq_store_tools.store_stat import stat_store

    open_now = warn_if_in_use(root)
    files = RealFiles()
    with progress_bar() as progress:
        found = stat_store(files, find_layout(files, root, log_folders), progress=progress)
    if output == "json":
        print_json(found.to_json())
    else:
        print_table(
            ["Topic", "Queue", "Messages", "Bytes", "Min offset", "Max offset", "First stored", "Last stored"],
            [
                (
                    queue.topic,
                    queue.queue_id,
                    each.records,
                    each.bytes,
                    each.min_offset,
                    each.max_offset,
                    _moment(each.first_ms),
                    _moment(each.last_ms),
                )
                for queue, each in sorted(found.queues.items())
            ],
        )
        say(
            f"{found.records} records of {found.record_bytes} bytes from log offset {found.log_start} to "
            f"{found.log_end}, {counted(found.log_files, 'log file')} of {found.log_file_bytes} bytes, "
            f"{counted(found.queue_files, 'queue file')}, {counted(found.index_keys, 'key')} in "
            f"{counted(found.index_files, 'index file')}"
        )
        if found.damaged_places:
            say(f"{found.damaged_places} ranges of {found.damaged_bytes} bytes hold no sound record")
    ctx.exit(0 if not found.damaged_places else IN_USE if open_now else 1)


def _moment(time_ms: int) -> str:
    return local_time(time_ms) if time_ms > 0 else "-"
