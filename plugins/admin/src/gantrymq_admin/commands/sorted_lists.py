"""Lists of groups and topics sorted at the brokers: ``--by`` of ``gantrymq group list`` and ``topic list``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar, get_args

import attrs
import click

from gantrymq.client import Admin
from gantrymq.plugin.commands import print_json, say
from gantrymq_admin.commands.options import served_by
from gantrymq_admin.commands.records import Columns, local_times, print_records, seconds
from gantrymq_admin.summaries import MAX_ROWS, GroupOrder, TopicOrder, group_summaries, topic_summaries

__all__ = ["by_options", "list_groups_by", "list_topics_by"]

Command = TypeVar("Command", bound=Callable[..., Any])


GROUP_COLUMNS: Final[Columns] = (
    *("group", "broker", "members", "model", "behind", ("Late", seconds("late_ms"))),
    *(("Retries", lambda group: group["retry_behind"] + group["retry_waiting"]), "dead_letters"),
    ("Out/s", "consumed_per_s"),
)
TOPIC_COLUMNS: Final[Columns] = (
    *("topic", "broker", ("Queues", lambda topic: max(topic["read_queues"], topic["write_queues"]))),
    *(("Messages", "kept"), ("In/s", "put_per_s"), ("Out/s", "got_per_s"), "groups"),
    ("Newest", local_times("newest_ms")),
)


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


async def list_groups_by(
    admin: Admin, addresses: Sequence[str], order: GroupOrder, contains: str, most: int, system: bool, output: str
) -> None:
    """Print the groups of each broker with their lag."""
    ask = partial(group_summaries, admin, order=order, contains=contains, most=most, system=system)
    await _list_by(addresses, ask, "groups", GROUP_COLUMNS, output)


async def list_topics_by(
    admin: Admin, addresses: Sequence[str], order: TopicOrder, contains: str, most: int, system: bool, output: str
) -> None:
    """Print the topics of each broker with their messages and rates."""
    ask = partial(topic_summaries, admin, order=order, contains=contains, most=most, system=system)
    await _list_by(addresses, ask, "topics", TOPIC_COLUMNS, output)


async def _list_by(
    addresses: Sequence[str], ask: Callable[[str], Awaitable[Any]], what: str, columns: Columns, output: str
) -> None:
    pages: list[dict[str, Any]] = []
    for address in addresses:
        with served_by("gantrymq-diagnosis", address, "does not sort its lists", "leave out --by"):
            pages.append({"address": address, **attrs.asdict(await ask(address))})
    if output == "json":
        print_json({"brokers": pages})
        return
    print_records([{**each, "broker": page["broker"]} for page in pages for each in page[what]], columns)
    for page in pages:
        if more := page["total"] - len(page[what]):
            say(f"{page['broker']} has {more} more such {what}; show more with --max")
