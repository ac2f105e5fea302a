"""Closing a broker for writing, and what is left to consume there before it may be stopped."""

from __future__ import annotations

from typing import Final

import attrs

from gantrymq.errors import FormatError
from gantrymq.plugin.model import PERM_WRITE
from gantrymq_admin.asking import Asking
from gantrymq_admin.brokers import rate
from gantrymq_console.access.users import Role
from gantrymq_console.data.brokers import accepts_sends, runtime_info
from gantrymq_console.data.cluster import BrokerAddress, Cluster
from gantrymq_console.data.draining import DEADLINE_S, PERMISSION, GroupLeft, Left, left_at
from gantrymq_console.data.nameservers import broker_settings
from gantrymq_console.pages.broker_settings import named, setting_of
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Form, Outcome, Page, Preview, Section, View

_TOPICS_AGE_S: Final = 30.0
_ROUTES_S: Final = 3.0  # for the name servers to learn the new permission
_LOOK_S: Final = 0.1


@attrs.frozen
class DrainPage:
    """What is left at a broker, with one page of the groups that are not done."""

    left: Left
    start: int
    groups: tuple[GroupLeft, ...]


@attrs.frozen
class PermissionPreview:
    """Preview of closing or opening a broker for writing."""

    broker: str
    close: bool
    old: int  # brokerPermission
    new: int
    lasting: bool  # whether the broker writes the change to its file
    topics: Long  # of the broker
    in_per_s: float | None  # messages
    others: tuple[str, ...]  # other masters of its cluster, which take the messages


async def show(context: RequestContext) -> View:
    """Show what is left to consume at a broker."""
    asking = Asking(context.console.world.clock, DEADLINE_S)
    at = await asking.needed(named(context, ""))
    left = await left_at(context.cluster, at, asking)
    groups = left.groups[context.start : context.start + context.rows]
    data = DrainPage(left, context.start, groups)
    return View("broker_drain.html", data, "", asking.missing, title=at.name)


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return a preview of closing or opening the broker of the path."""
    at, close = await named(context, ""), _closes(form)
    cluster = context.cluster
    old, new, lasting = await _permissions(cluster, at, close)
    topics = await cluster.shared(
        ("topic_configs", at.address), _TOPICS_AGE_S, lambda: cluster.admin.topic_configs(at.address)
    )
    info = (await runtime_info(cluster, at.address)).value
    others = [
        each.name
        for each in await cluster.brokers()
        if each.cluster == at.cluster and each.broker_id == 0 and each.name != at.name
    ]
    in_per_s = rate(info.get("putTps"))
    data = PermissionPreview(at.name, close, old, new, lasting, Long(len(topics.value)), in_per_s, tuple(others))
    change = f"{PERMISSION} {old} -> {new}"
    command = f"broker config set {PERMISSION}={new} -b {at.address}"
    steady = attrs.evolve(data, in_per_s=None)
    button = "brokers.do_close" if close else "brokers.do_open"
    return Preview("broker_permission.html", data, command, at.name, change, steady, button=button)


async def change_permission(context: RequestContext, form: Form) -> Outcome:
    """Close or open a broker for writing, and wait until the name servers know it."""
    at, close = await named(context, ""), _closes(form)
    cluster, clock = context.cluster, context.console.world.clock
    old, new, _ = await _permissions(cluster, at, close)
    if old != new:
        await cluster.admin.change_broker_settings(at.address, {PERMISSION: str(new)})
        began = clock.monotonic()
        while await _accepts(cluster, at.name) is close and clock.monotonic() - began < _ROUTES_S:
            await clock.sleep(_LOOK_S)
    if not close and await _accepts(cluster, at.name) is False:  # closed at the name servers only
        await cluster.admin.add_write_permission(at.name)
    cluster.forget()
    fields = {"name": at.name}
    if close:
        return Outcome("draining.closed", fields, f"brokers/{at.name}/drain", data={PERMISSION: new})
    return Outcome("draining.opened", fields, f"brokers/{at.name}", data={PERMISSION: new})


async def _accepts(cluster: Cluster, name: str) -> bool | None:
    cluster.forget(("writable", name))
    return await accepts_sends(cluster, name)


async def _permissions(cluster: Cluster, at: BrokerAddress, close: bool) -> tuple[int, int, bool]:
    """Return brokerPermission now and then, and whether the change outlasts a restart.

    Raises:
        FormatError: the broker's setting is no number.
        ClientError: it does not return its settings.
    """
    cluster.forget(("settings", at.address))
    setting = setting_of((await broker_settings(cluster, at.address)).value, PERMISSION)
    if not setting.value.isdecimal():
        raise FormatError(f"the broker at {at.address} has {PERMISSION}={setting.value}, which is no number")
    old = int(setting.value)
    return old, old & ~PERM_WRITE if close else old | PERM_WRITE, setting.changeable is None


def _closes(form: Form) -> bool:
    word = form.get("to", "")
    if word not in ("close", "open"):
        raise BadInput("common.not_a_choice", name="to", value=word[:40], choices="close, open")
    return word == "close"


SECTION = Section(
    pages=(Page("/brokers/{broker}/drain", "draining.title", Role.VIEWER, show, nav="brokers"),),
    actions=(
        Action(
            "/brokers/{broker}/permission",
            "brokers.permission",
            Role.ADMIN,
            change_permission,
            preview,
            fields=("to",),
            page="/brokers/{broker}/drain",
        ),
    ),
)
