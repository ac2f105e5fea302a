"""``gantrymq store stat``: statistics of a store."""

from __future__ import annotations

from pathlib import Path

import click

from gantrymq.plugin.commands import local_time, output_option, print_json, print_table, say
from gantrymq_store_tools.commands.in_use import IN_USE, warn_if_in_use
from gantrymq_store_tools.commands.options import folder_argument, log_option
from gantrymq_store_tools.commands.progress_bar import progress_bar
from gantrymq_store_tools.findings import counted


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
