"""Settings of one broker: the list, one setting, and changing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role, mask
from gantrymq_console.data.brokers import broker_named
from gantrymq_console.data.cluster import BrokerAddress
from gantrymq_console.data.nameservers import SettingRow, broker_settings
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Form, NotFound, Outcome, Page, Preview, View

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN: Final = ("all", "changed", "run_time")


@attrs.frozen
class SettingList:
    """A page of settings."""

    server: str  # name to show
    broker_id: int
    filter: str
    show: str
    start: int
    total: Long
    changed: int  # settings that differ from their default
    settings: tuple[SettingRow, ...]


@attrs.frozen
class SettingPage:
    """One setting."""

    server: str
    broker_id: int
    address: str
    setting: SettingRow


@attrs.frozen
class SettingPreview:
    """A change of one setting."""

    server: str
    key: str
    old: str
    new: str
    setting: SettingRow
    lasting: bool | None  # whether the server writes the change to its file; None: not known


async def setting_list(context: RequestContext) -> View:
    """Show the settings of one broker."""
    at = await named(context, context.text("id"))
    asking = Asking(context.console.world.clock)
    found = await asking.one(at.address, broker_settings(context.cluster, at.address))
    data = chosen(context, at.name, at.broker_id, found.value if found is not None else ())
    command = f"broker config get -b {at.address}"
    return View(
        "broker_settings.html", data, command, asking.missing, found.as_of_ms if found is not None else None, at.name
    )


def chosen(context: RequestContext, server: str, broker_id: int, settings: Sequence[SettingRow]) -> SettingList:
    """Return the page of *settings* that the parameters of the address ask for."""
    wanted, show = context.text("filter"), context.choice("show", SHOWN)
    rows = [
        each
        for each in settings
        if wanted.lower() in f"{each.key} {each.help}".lower()
        and (show != "changed" or each.differs)
        and (show != "run_time" or each.origin == "request")
    ]
    page = tuple(rows[context.start : context.start + context.rows])
    changed = sum(each.differs is True for each in settings)
    return SettingList(server, broker_id, wanted, show, context.start, Long(len(rows)), changed, page)


async def setting_page(context: RequestContext) -> View:
    """Show one setting of one broker, with a form to change it."""
    at = await named(context, context.text("id"))
    asking = Asking(context.console.world.clock)
    found = await asking.needed(broker_settings(context.cluster, at.address))
    data = SettingPage(at.name, at.broker_id, at.address, setting_of(found.value, context.names["key"]))
    command = f"broker config get {data.setting.key} -b {at.address}"
    return View("broker_setting.html", data, command, (), found.as_of_ms, data.setting.key)


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return the old and the new value."""
    at = await named(context, form.get("id", ""))
    context.cluster.forget(("settings", at.address))
    setting = setting_of((await broker_settings(context.cluster, at.address)).value, context.names["key"])
    if setting.changeable is False:
        raise BadInput("brokers.not_at_run_time", key=setting.key)
    new = setting_value(form)
    lasting = None if setting.changeable is None else False
    shown = mask(setting.key, new) if not setting.secret else "******"
    data = SettingPreview(at.name, setting.key, setting.value, shown, setting, lasting)
    command = f"broker config set {setting.key}={shown} -b {at.address}"
    change = f"{setting.value} -> {shown}"
    return Preview("broker_setting_preview.html", data, command, f"{at.name} {setting.key}", change)


async def change(context: RequestContext, form: Form) -> Outcome:
    """Set a new value."""
    at = await named(context, form.get("id", ""))
    key = context.names["key"]
    await context.cluster.admin.change_broker_settings(at.address, {key: setting_value(form)})
    context.cluster.forget(("settings", at.address), ("runtime", at.address), "overview")
    return Outcome("brokers.setting_changed", {"key": key, "name": at.name}, f"brokers/{at.name}/settings")


def setting_of(settings: Sequence[SettingRow], key: str) -> SettingRow:
    """Return the setting *key*. Raises NotFound."""
    for each in settings:
        if each.key == key:
            return each
    raise NotFound("brokers.no_setting", key=key)


def setting_value(form: Form) -> str:
    """Return the new value. Raises BadInput: it has several lines."""
    value = form.get("value", "").strip()
    if any(each in value for each in "\r\n\0"):
        raise BadInput("brokers.one_line")
    return value


async def named(context: RequestContext, broker_id: str) -> BrokerAddress:
    """Return the broker of the path with this id. Raises NotFound."""
    name = context.names["broker"]
    number = int(broker_id) if broker_id.isascii() and broker_id.isdecimal() and len(broker_id) < 19 else 0
    found = await broker_named(context.cluster, name, number)
    if found is None:
        await context.cluster.brokers()  # raises if no name server answers: then it is not known whether it exists
        raise NotFound("brokers.no_such", name=name)
    return found


PAGES: Final = (
    Page("/brokers/{broker}/settings", "brokers.settings", Role.VIEWER, setting_list, None, nav="brokers"),
    Page("/brokers/{broker}/settings/{key}", "brokers.setting", Role.VIEWER, setting_page, None, nav="brokers"),
)
ACTIONS: Final = (
    Action("/brokers/{broker}/settings/{key}", "brokers.change", Role.ADMIN, change, preview, fields=("id", "value")),
)
