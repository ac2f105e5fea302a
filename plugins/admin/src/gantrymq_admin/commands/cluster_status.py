"""``gantrymq cluster status``: masters and slaves of each broker name, and how far the copies are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs
import click

from gantrymq.client import Admin
from gantrymq.commands.output import print_json, print_table
from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.remoting.codes import RequestCode
from gantrymq_admin.commands.options import admin_command
from gantrymq_admin.copies import MASTER_ID, Answer, Copy, copies_of

__all__ = ["status"]

COLUMNS = ["Cluster", "Broker", "Role", "Id", "Address", "Log end", "Lag bytes", "Lag s", "In sync", "State"]


@click.command()
@click.option("-c", "--cluster", "name", metavar="NAME", help="This cluster only.")
@admin_command
async def status(admin: Admin, name: str | None, output: str) -> None:
    """Show masters and slaves: ends of their logs, lag, in-sync copies, and why a slave does not follow."""
    info = await admin.clusters()
    if name is not None and name not in info.clusters:
        raise ClientError(f"no cluster is named {name}; clusters known: {', '.join(info.clusters) or 'none'}")
    found = sorted(
        (each for each in info.brokers if name is None or each.name in info.clusters[name]),
        key=lambda each: (each.cluster, each.name),
    )
    answers = await asyncio.gather(*(_answers(admin, each.addresses) for each in found))
    sets = [(each.cluster, each.name, copies_of(answer)) for each, answer in zip(found, answers, strict=True)]
    if output == "json":
        print_json({"sets": [_document(*each) for each in sets]})
        return
    print_table(COLUMNS, [(cluster, broker, *_row(copy)) for cluster, broker, copies in sets for copy in copies])


async def _answers(admin: Admin, addresses: Mapping[int, str]) -> list[Answer]:
    return await asyncio.gather(*(_answer(admin, *each) for each in sorted(addresses.items())))


async def _answer(admin: Admin, broker_id: int, address: str) -> Answer:
    try:
        figures = await admin.runtime_info(address)
        ha = await _ha_status(admin, address)
    except GantryError as problem:
        return Answer(broker_id=broker_id, address=address, problem=str(problem))
    try:
        end = int(figures.get("commitLogMaxOffset", ""))
    except ValueError:
        end = None
    if ha is not None and broker_id == MASTER_ID:
        end = int(ha.get("masterCommitLogMaxOffset") or 0) or end  # of the same moment as the offsets of the slaves
    return Answer(broker_id=broker_id, address=address, end=end, ha=ha)


async def _ha_status(admin: Admin, address: str) -> dict[Any, Any] | None:
    """Return RocketMQ's HARuntimeInfo; None from brokers before 5.0."""
    try:
        return await admin.request_json(address, RequestCode.GET_BROKER_HA_STATUS, what="replication")
    except BrokerRefused:
        return None


def _document(cluster: str, broker: str, copies: list[Copy]) -> dict[str, Any]:
    return {"cluster": cluster, "broker": broker, "copies": [attrs.asdict(each) for each in copies]}


def _row(copy: Copy) -> tuple[object, ...]:
    state = copy.problem or {None: "", True: "follows", False: "does not follow"}[copy.following]
    if copy.in_sync_copies is not None:
        wanted = copy.wanted_copies
        in_sync = (
            f"{copy.in_sync_copies} copies" if wanted is None else f"{copy.in_sync_copies} copies of {wanted} wanted"
        )
    else:
        in_sync = {None: "-", True: "yes", False: "no"}[copy.in_sync]
    numbers = (copy.end, copy.lag_bytes, None if copy.lag_s is None else round(copy.lag_s, 1))
    return (
        copy.role,
        "-" if copy.id is None else copy.id,
        copy.address,
        *("-" if each is None else each for each in numbers),
        in_sync,
        state,
    )
