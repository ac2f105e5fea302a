"""Lists of groups and topics sorted at the brokers: ``--by`` of ``gantrymq group list`` and ``topic list``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, get_args

import attrs
import click

from gantrymq.client import Admin
from gantrymq.commands.output import print_json, print_table, say
from gantrymq.commands.times import local_time
from gantrymq_admin.commands.options import served_by
from gantrymq_admin.summaries import (
    MAX_ROWS,
    GroupOrder,
    GroupSummary,
    TopicOrder,
    TopicSummary,
    group_summaries,
    topic_summaries,
)

__all__ = ["by_options", "list_groups_by", "list_topics_by"]

Command = TypeVar("Command", bound=Callable[..., Any])


class _Page(Protocol):
    @property
    def broker(self) -> str: ...

    @property
    def total(self) -> int: ...


Page = TypeVar("Page", bound=_Page)


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
    found = await _pages(
        addresses,
        lambda address: group_summaries(admin, address, order=order, contains=contains, most=most, system=system),
    )
    if output == "json":
        print_json(_document(found))
        return
    print_table(
        ["Group", "Broker", "Members", "Model", "Behind", "Late", "Retries", "Dead letters", "Out/s"],
        [_group_row(page.broker, each) for page in found.values() for each in page.groups],
    )
    _say_more(found, {address: len(page.groups) for address, page in found.items()}, "groups")


async def list_topics_by(
    admin: Admin, addresses: Sequence[str], order: TopicOrder, contains: str, most: int, system: bool, output: str
) -> None:
    """Print the topics of each broker with their messages and rates."""
    found = await _pages(
        addresses,
        lambda address: topic_summaries(admin, address, order=order, contains=contains, most=most, system=system),
    )
    if output == "json":
        print_json(_document(found))
        return
    print_table(
        ["Topic", "Broker", "Queues", "Messages", "In/s", "Out/s", "Groups", "Newest"],
        [_topic_row(page.broker, each) for page in found.values() for each in page.topics],
    )
    _say_more(found, {address: len(page.topics) for address, page in found.items()}, "topics")


async def _pages(addresses: Sequence[str], ask: Callable[[str], Awaitable[Page]]) -> dict[str, Page]:
    found = dict[str, Page]()
    for address in addresses:
        with served_by("gantrymq-diagnosis", address, "does not sort its lists", "leave out --by"):
            found[address] = await ask(address)
    return found


def _document(found: Mapping[str, Any]) -> dict[str, Any]:
    return {"brokers": [{"address": address, **attrs.asdict(page)} for address, page in found.items()]}


def _say_more(found: Mapping[str, _Page], shown: Mapping[str, int], what: str) -> None:
    for address, page in found.items():
        if page.total > shown[address]:
            say(f"{page.broker} has {page.total - shown[address]} more such {what}; show more with --max")


def _group_row(broker: str, group: GroupSummary) -> tuple[object, ...]:
    late = "-" if group.late_ms is None else f"{group.late_ms / 1000:.0f} s"
    again = group.retry_behind + group.retry_waiting
    behind = "-" if group.behind is None else group.behind
    shown = (group.members, group.model or "-", behind, late, again, group.dead_letters, group.consumed_per_s)
    return (group.group, broker, *shown)


def _topic_row(broker: str, topic: TopicSummary) -> tuple[object, ...]:
    newest = "-"
    if topic.newest_ms is not None:
        newest = local_time(topic.newest_ms)
    queues = max(topic.read_queues, topic.write_queues)
    return (topic.topic, broker, queues, topic.kept, topic.put_per_s, topic.got_per_s, topic.groups, newest)
