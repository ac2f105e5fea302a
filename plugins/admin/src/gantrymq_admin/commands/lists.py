"""Tables of records, and lists of groups and topics sorted at the brokers: ``--by`` of their commands.

Commands show some values of a record as a table; scripts get all as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, get_args

import attrs
import click

from gantrymq.client import Admin
from gantrymq.plugin.commands import local_time, print_json, print_table, say
from gantrymq_admin.commands.options import served_by
from gantrymq_admin.summaries import MAX_ROWS, GroupSummaries, Order, Summaries, TopicSummaries, summary_page

Read: TypeAlias = "str | Callable[[Any], object]"
Columns: TypeAlias = "Sequence[str | tuple[str, Read]]"
"""Names of values, which are their titles too, or titles with a name or with a function that returns the value."""


def print_records(records: Iterable[Any], columns: Columns) -> None:
    """Print records, objects or mappings, as a table; None is a dash."""
    titled = [(each.replace("_", " ").capitalize(), each) if isinstance(each, str) else each for each in columns]
    print_table([title for title, _ in titled], [[_cell(each, read) for _, read in titled] for each in records])


def seconds(name: str, after: str = "") -> Callable[[Any], object]:
    """Return a column that shows a number of milliseconds as seconds."""

    def read(record: Any) -> str | None:
        ms = _value(record, name)
        return None if ms is None else f"{ms / 1000:.0f} s{after}"

    return read


def local_times(name: str, *, fraction: bool = False) -> Callable[[Any], object]:
    """Return a column that shows milliseconds since 1970 as local time; 0 is no time."""

    def read(record: Any) -> str | None:
        at_ms = _value(record, name)
        return local_time(at_ms, fraction=fraction) if at_ms else None

    return read


def text(name: str) -> Callable[[Any], object]:
    """Return a column of texts that is empty for None."""
    return lambda record: _value(record, name) or ""


def unless_silent(name: str) -> Callable[[Any], object]:
    """Return a column of brokers that is empty for one that does not answer."""
    return lambda broker: _value(broker, name) if broker["problem"] is None else ""


BROKER_COLUMNS: Final[Columns] = (
    *("cluster", "broker", "id", "address"),
    ("Version", lambda broker: broker["version"] if broker["problem"] is None else f"no: {broker['problem']}"),
    *(("In/s", unless_silent("in_per_s")), ("Out/s", unless_silent("out_per_s"))),
)


def same_of(records: Iterable[Any], name: str) -> Any:
    """Return the value that all *records* have in an attribute; None if they differ."""
    first, *others = (getattr(each, name) for each in records)
    return first if all(each == first for each in others) else None


def _cell(record: Any, read: Read) -> object:
    value = _value(record, read) if isinstance(read, str) else read(record)
    return "-" if value is None else value


def _value(record: Any, name: str) -> Any:
    return record[name] if isinstance(record, Mapping) else getattr(record, name)


Command = TypeVar("Command", bound=Callable[..., Any])


_LIST_COLUMNS: Final[Mapping[type[Summaries], Columns]] = {
    GroupSummaries: (
        *("group", "broker", "members", "model", "behind", ("Late", seconds("late_ms"))),
        *(("Retries", lambda group: group["retry_behind"] + group["retry_waiting"]), "dead_letters"),
        ("Out/s", "consumed_per_s"),
    ),
    TopicSummaries: (
        *("topic", "broker", ("Queues", lambda topic: max(topic["read_queues"], topic["write_queues"]))),
        *(("Messages", "kept"), ("In/s", "put_per_s"), ("Out/s", "got_per_s"), "groups"),
        ("Newest", local_times("newest_ms")),
    ),
}


def by_options(order: Any, what: str) -> Callable[[Command], Command]:
    """Add ``--by``, ``--max`` and ``--contains``. *order*: the literal type of the orders; *what* is listed."""

    def add(command: Command) -> Command:
        by = click.option("--by", "order", type=click.Choice(get_args(order)), help="Show details, in this order.")
        most = click.option(
            "--max",
            "most",
            type=click.IntRange(1, MAX_ROWS),
            default=50,
            show_default=True,
            help="With --by, at each broker.",
        )
        contains = click.option(
            "--contains", metavar="TEXT", default="", help=f"With --by: only {what} with TEXT in their name."
        )
        return by(most(contains(command)))

    return add


async def list_by(
    admin: Admin,
    addresses: Sequence[str],
    kind: type[Summaries],
    order: Order,
    contains: str,
    most: int,
    system: bool,
    output: str,
) -> None:
    """Print the groups of each broker with their lag, or its topics with their messages and rates."""
    what = kind.member
    pages: list[dict[str, Any]] = []
    for address in addresses:
        with served_by("gantrymq-diagnosis", address, "does not sort its lists", "leave out --by"):
            page = await summary_page(admin, address, kind, order=order, contains=contains, most=most, system=system)
            pages.append({"address": address, **attrs.asdict(page)})
    if output == "json":
        print_json({"brokers": pages})
        return
    rows = [{**row, "broker": each["broker"]} for each in pages for row in each[what]]
    print_records(rows, _LIST_COLUMNS[kind])
    for each in pages:
        if more := each["total"] - len(each[what]):
            say(f"{each['broker']} has {more} more such {what}; show more with --max")
