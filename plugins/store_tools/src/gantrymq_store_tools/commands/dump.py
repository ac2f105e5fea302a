"""``gantrymq store dump``: single items as stored in their files."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import click

from gantrymq.plugin.commands import output_option, print_json, print_table, say
from gantrymq.plugin.model import Queue
from gantrymq_store_tools.commands.options import folder_argument, log_option
from gantrymq_store_tools.commands.record_body import with_body


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
