"""``gantrymq cluster export|import``: topics, groups and order configurations as one JSON file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from gantrymq.client import Admin
from gantrymq.errors import ClientError
from gantrymq.plugin.commands import FilledPath, dumps, print_json, say, warn
from gantrymq.plugin.real_world import RealFiles
from gantrymq_admin.commands.options import admin_command, cluster_option
from gantrymq_admin.definitions.cluster_tables import export_document, read_cluster
from gantrymq_admin.definitions.difference import BrokerChange, Change, Difference
from gantrymq_admin.definitions.document import Document, parse
from gantrymq_admin.definitions.fields import GROUP, TOPIC
from gantrymq_admin.definitions.importing import Plan, Result, apply_plan, plan_import, report_of

PROGRESS_EVERY: Final = 500  # changes between two lines of progress
_STANDARD: Final = Path("-")  # standard input or output
_NAMES_SHOWN: Final = 20  # of definitions that only the cluster has


@click.command()
@cluster_option
@click.option(
    "-o",
    "--file",
    "target",
    type=FilledPath(path_type=Path),
    default="-",
    metavar="FILE",
    help="File to write; - (the default) is standard output.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--system", is_flag=True, help="RocketMQ's own topics and groups as well.")
@admin_command
async def export(admin: Admin, cluster: str | None, target: Path, force: bool, system: bool, output: str) -> None:
    """Write the topics, groups and order configurations of a cluster as one JSON file.

    The file changes only when definitions change, so it can be kept in git.
    """
    files = RealFiles()
    if target != _STANDARD and files.stat(target) is not None and not force:
        raise ClientError(f"{target} already exists; --force replaces it")
    document = export_document(await read_cluster(admin, cluster), system=system)
    text = document.to_text()
    if target == _STANDARD:
        click.echo(text, nl=False)
        return
    try:
        files.replace(target, text.encode())
    except OSError as problem:
        raise ClientError(f"{target} cannot be written: {problem.strerror or problem}") from None
    counts = {
        "topics": document.count(TOPIC),
        "groups": document.count(GROUP),
        "order_configs": len(document.order_configs),
    }
    if output == "json":
        print_json({"file": str(target), "cluster": document.cluster, "brokers": document.brokers, **counts})
        return
    click.echo(f"exported {_counted(document)} of cluster {document.cluster} to {target}")


def _moves(_ctx: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> list[tuple[str, str]]:
    found = []
    for text in texts:
        old, mark, new = text.partition("=")
        if not mark or not old:
            raise click.BadParameter(f"{text!r} is not OLD=NEW")
        found.append((old, new))
    return found


@click.command("import")
@click.argument("source", type=FilledPath(path_type=Path, allow_dash=True), metavar="FILE")
@cluster_option
@click.option(
    "--map",
    "moves",
    multiple=True,
    callback=_moves,
    metavar="OLD=NEW",
    help="Apply the definitions of broker OLD of the file to broker NEW of the cluster; OLD= leaves them out.",
)
@click.option("--dry-run", is_flag=True, help="Show the changes only.")
@click.option("--yes", is_flag=True, help="Apply the changes without asking.")
@click.option("--fewer-queues", is_flag=True, help="Take read queues away although messages are in them.")
@admin_command
async def import_(
    admin: Admin,
    source: Path,
    cluster: str | None,
    moves: list[tuple[str, str]],
    dry_run: bool,
    yes: bool,
    fewer_queues: bool,
    output: str,
) -> None:
    """Show the changes that a file of definitions makes in a cluster, and apply them after a confirmation.

    An import adds and changes definitions; it deletes none. FILE - is standard input. After a failure it continues with
    the other changes and exits with 1; running it again applies the remaining ones.
    """
    if source == _STANDARD and not (dry_run or yes):
        raise click.UsageError("a file from standard input needs --yes or --dry-run: the question cannot be answered")
    if output == "json" and not (dry_run or yes):
        raise click.UsageError("--output json needs --yes or --dry-run: the question is asked below the shown changes")
    document = parse(_read(source), "standard input" if source == _STANDARD else str(source))
    plan = await plan_import(admin, document, cluster, moves)
    if output == "text":
        _show(plan.difference)
    results: Sequence[Result] | None = None
    if plan.difference.changes and not dry_run:
        if not yes:
            _ask(plan)
        results = await apply_plan(admin, plan, fewer_queues=fewer_queues, progress=_progress(plan))
    if output == "json":
        print_json(report_of(plan.difference, dry_run, results))
    failed = [result for result in results or () if result.problems]
    for result in failed:
        for broker, problem in result.problems.items():
            warn(f"{result.change.title}{' at ' if broker else ''}{broker}: {problem}")
    if failed:
        raise ClientError(
            f"{len(failed)} of {len(plan.difference.changes)} changes failed: "
            f"{', '.join(result.change.title for result in failed[:_NAMES_SHOWN])}"
            f"{', ...' if len(failed) > _NAMES_SHOWN else ''}; see above. Run the command again for what is left"
        )
    if results is not None and output == "text":
        click.echo(f"applied {len(results)} changes to cluster {plan.difference.cluster}")


def _read(source: Path) -> bytes:
    if source == _STANDARD:
        return sys.stdin.buffer.read()
    try:
        return RealFiles().read(source)
    except OSError as problem:
        raise ClientError(f"{source} cannot be read: {problem.strerror or problem}") from None


def _ask(plan: Plan) -> None:
    try:
        agreed = click.confirm(f"Change cluster {plan.difference.cluster}?", err=True)
    except click.Abort:  # end of input: no terminal
        agreed = False
    if not agreed:
        raise ClientError("nothing was changed; --yes applies the changes without asking")


def _progress(plan: Plan) -> Callable[[int], object]:
    total = len(plan.difference.changes)

    def tell(done: int) -> None:
        if done % PROGRESS_EVERY == 0 and done < total:
            say(f"{done} of {total} changes")

    return tell


# --- showing --------------------------------------------------------------------------------------------------------


def _counted(document: Document) -> str:
    return (
        f"{document.count(TOPIC)} topics, {document.count(GROUP)} groups and {len(document.order_configs)} order "
        "configurations"
    )


def _show(difference: Difference) -> None:
    """Print a difference for people: + for a new definition, ~ for a changed one, indented lines for its members."""
    for change in difference.changes:
        for line in _lines(change):
            click.echo(line)
    adds = sum(change.adds for change in difference.changes)
    click.echo(
        f"cluster {difference.cluster}: {adds} to add, {len(difference.changes) - adds} to change, "
        f"{difference.unchanged} unchanged"
    )
    if difference.only_there:
        names = [f"{each.word.replace('_', ' ')} {each.name}" for each in difference.only_there[:_NAMES_SHOWN]]
        more = ", ..." if len(difference.only_there) > _NAMES_SHOWN else ""
        click.echo(f"only in the cluster, and not deleted: {len(difference.only_there)} ({', '.join(names)}{more})")
    if difference.not_compared:
        say(f"not in the file, and not changed: {', '.join(difference.not_compared)}")
    if difference.own:
        say(f"{difference.own} definitions of the file are RocketMQ's own, and not compared")


def _lines(change: Change) -> Iterator[str]:
    new = [each for each in change.at if each.before is None]
    if change.adds:
        same: dict[str, list[str]] = {}
        for each in new:
            text = ", ".join(f"{name} {_plain(each.after[name])}" for name in each.fields)
            same.setdefault(text, []).append(each.broker)
        for text, brokers in same.items():
            yield f"+ {change.title}{_at(brokers)}{': ' if text else ''}{text}"
        return
    yield f"~ {change.title}"
    if new:
        yield f"    new{_at([each.broker for each in new])}"
    alike: dict[str, list[str]] = {}
    for each in change.at:
        for name in each.fields if each.before is not None else ():
            alike.setdefault(_member(each, name), []).append(each.broker)
    for text, brokers in alike.items():
        yield f"    {text}{_at(brokers)}"
    for each in change.at:
        if each.hidden is not None:
            yield f"    at {each.broker} no consumer would receive {each.hidden}"


def _member(each: BrokerChange, name: str) -> str:
    assert each.before is not None
    return f"{name}: {_plain(each.before[name])} -> {_plain(each.after[name])}"


def _at(brokers: Sequence[str]) -> str:
    return f" at {', '.join(brokers)}" if any(brokers) else ""


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else dumps(value).decode()
