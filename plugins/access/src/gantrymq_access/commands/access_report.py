"""``gantrymq access report``: what brokers with accessMode=report would refuse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs
import click

from gantrymq.client import Admin
from gantrymq.plugin.commands import print_json, say
from gantrymq_access.commands.options import Place, ask_each, brokers_text, places_of
from gantrymq_access.service import ACCESS_REPORT
from gantrymq_admin.commands.lists import Columns, local_times, print_records
from gantrymq_admin.commands.options import admin_command, served_by, where_options

_COLUMNS: Final[Columns] = (
    ("User", lambda row: row["user"] or None),
    ("Missing", lambda row: f"{' or '.join(row['actions'])} on {row['resource']}" if row["resource"] else "an account"),
    *("reason", "count", ("Last", local_times("last_ms")), "source", "request", "brokers"),
)


@attrs.frozen
class Refusal:
    """Requests of one kind that a broker would refuse."""

    user: str
    resource: str  # empty: the user is not known
    actions: tuple[str, ...]
    reason: str
    command: str  # what allows it; empty: nothing does
    count: int
    first_ms: int
    last_ms: int
    source: str  # address of the last client
    request: int | str  # of the last one

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> Refusal:
        """Read a row of the response."""
        return cls(
            str(row["user"]),
            str(row["resource"]),
            tuple(map(str, row["actions"])),
            str(row["reason"]),
            str(row["command"]),
            int(row["count"]),
            int(row["first"]),
            int(row["last"]),
            str(row["source"]),
            row["request"],
        )


@attrs.frozen
class BrokerReport:
    """The report of one broker."""

    refusals: tuple[Refusal, ...]
    left_out: int  # requests that it did not count, because it keeps no more rows


async def report_of(admin: Admin, address: str) -> BrokerReport:
    """Return the report of one broker.

    Raises:
        RequestRefused: it is RocketMQ's, or has no access control of this plugin.
        AnswerUnreadable, BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout: no usable answer.
    """

    def read(members: dict[str, Any]) -> BrokerReport:
        return BrokerReport(tuple(map(Refusal.from_json, members["rows"])), int(members["leftOut"]))

    with served_by("gantrymq-access", address, "reports no refusals"):
        return await admin.request_parsed(address, ACCESS_REPORT, read, what=f"the report of {address}")


@click.command()
@where_options
@admin_command
async def report(admin: Admin, cluster: str | None, broker: str | None, output: str) -> None:
    """List what the brokers refuse, or would refuse with accessMode=report, since their start, and how to allow it.

    To introduce access control, start the brokers with accessMode=report, run the listed commands for what should be
    allowed, and set accessMode=enforce once the report has no new rows. A restart of a broker empties its report.
    """
    places = await places_of(admin, cluster, broker)
    found: dict[Place, BrokerReport] = (await ask_each(places, lambda address: report_of(admin, address))).found
    if output == "json":
        print_json(
            {
                "brokers": [
                    {
                        "broker": place.broker,
                        "address": place.address,
                        "refusals": [attrs.asdict(each) for each in of_broker.refusals],
                        "left_out": of_broker.left_out,
                    }
                    for place, of_broker in found.items()
                ]
            }
        )
        return
    rows = list(_rows(found))
    if not rows:
        click.echo("nothing was or would be refused since the start of the brokers")
        return
    print_records(rows, _COLUMNS)
    commands = dict.fromkeys(row["command"] for row in rows if row["command"])
    if commands:
        say("These commands allow it:")
        click.echo("\n".join(commands))
    for place, of_broker in found.items():
        if of_broker.left_out:
            say(f"{place.title} has no room for more rows; {of_broker.left_out} requests of other kinds are not listed")


def _rows(found: Mapping[Place, BrokerReport]) -> Iterable[dict[str, Any]]:
    """Return a row for each kind of refusal of all brokers, the most frequent first."""
    by_kind: dict[tuple[str, str, tuple[str, ...], str], list[tuple[Place, Refusal]]] = {}
    for place, of_broker in found.items():
        for each in of_broker.refusals:
            by_kind.setdefault((each.user, each.resource, each.actions, each.reason), []).append((place, each))
    rows = [_joined(each, list(found)) for each in by_kind.values()]
    return sorted(rows, key=lambda row: (-row["count"], row["user"], row["resource"]))


def _joined(same: Sequence[tuple[Place, Refusal]], every: Sequence[Place]) -> dict[str, Any]:
    newest = max((each for _, each in same), key=lambda each: each.last_ms)
    return {
        **attrs.asdict(newest),
        "count": sum(each.count for _, each in same),
        "brokers": brokers_text([place for place, _ in same], every),
    }
