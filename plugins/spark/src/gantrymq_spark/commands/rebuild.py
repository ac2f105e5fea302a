"""``gantrymq pipeline rebuild``: rebuild queues and index of a store that is too large for one process."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from gantrymq.plugin.commands import output_option, print_json
from gantrymq_spark.commands.spark import job_session, spark_options
from gantrymq_store_tools.commands.options import (
    folder_argument,
    index_layout_of,
    index_options,
    levels_option,
    log_option,
    refuse_if_in_use,
    target_option,
)
from gantrymq_store_tools.commands.output import show_rebuilt


@click.command()
@folder_argument
@target_option
@log_option
@levels_option
@click.option("--queues/--no-queues", default=True, help="Rebuild consume queues; on by default.")
@click.option("--index/--no-index", default=True, help="Rebuild index files; on by default.")
@index_options
@spark_options
@output_option
@click.pass_context
def rebuild(
    ctx: click.Context,
    root: Path,
    target: Path | None,
    log_folders: tuple[Path, ...],
    delay_levels: str | None,
    queues: bool,
    index: bool,
    slots: int | None,
    entries: int | None,
    tags: bool | None,
    master: str | None,
    conf: dict[str, str],
    output: str,
) -> None:
    """Rebuild consume queues and index files from the commit log, in a folder next to the store, many ranges at a time.

    Every executor must see the folder. A rebuild that was stopped continues where it stopped. To use the result, stop
    the broker and replace the store's consumequeue and index by it.
    """
    from gantrymq.plugin.real_world import RealClock, RealFiles
    from gantrymq_spark.jobs.rebuild import over_spark
    from gantrymq_spark.jobs.rebuild import rebuild as work
    from gantrymq_store_tools.rebuild_store import sibling_folder

    layout = index_layout_of(slots, entries)
    if not queues and not index:
        raise click.UsageError("--no-queues and --no-index together leave nothing to do; give at most one of them")
    refuse_if_in_use(root)
    with job_session("rebuild", master, conf) as session:
        done = work(
            RealFiles(),
            root,
            target if target is not None else sibling_folder(root, "rebuilt"),
            RealClock().utc_offset_ms,
            queues=queues,
            index=index,
            run=partial(over_spark, session),
            shares=4 * session.sparkContext.defaultParallelism,
            log_folders=log_folders,
            index_layout=layout,
            delay_levels=delay_levels,
            tag_keys=tags,
        )
    if output == "json":
        print_json(done.to_json())
    else:
        for what, report in (("queue", done.queues), ("index", done.index)):
            if report is not None:
                show_rebuilt(report, what)
    ctx.exit(1 if done.damaged else 0)
