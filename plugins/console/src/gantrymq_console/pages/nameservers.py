"""Name servers: whether they agree, their settings and their key-value table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs

from gantrymq.client.admin import ORDER_NAMESPACE
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role, mask
from gantrymq_console.data.nameservers import NameServers, SettingRow, kv_values, name_server_settings, name_servers
from gantrymq_console.pages.broker_settings import SettingList, chosen, setting_of, setting_value
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Form, NotFound, Outcome, Page, Preview, Section, View

_MOST_CHARACTERS: Final = 1000  # of a namespace or key


@attrs.frozen
class NameServerPage:
    """All name servers, and one namespace of their key-value table."""

    servers: NameServers
    namespace: str
    values: Mapping[str, str] | None  # None: no answer


@attrs.frozen
class ServerSetting:
    """One setting, at each name server that answers."""

    key: str
    setting: SettingRow  # of the first
    values: Mapping[str, SettingRow]  # by address


@attrs.frozen
class ChangePreview:
    """A change at all name servers."""

    what: str  # setting, put, delete
    key: str
    namespace: str
    old: Mapping[str, str]  # by address; for a namespace under ""
    new: str
    servers: tuple[str, ...]


async def server_list(context: RequestContext) -> View:
    """Show all name servers."""
    asking = Asking(context.console.world.clock)
    found = await asking.needed(name_servers(context.cluster))
    given = context.typed("namespace", context.text("namespace"))
    namespace = given[:_MOST_CHARACTERS] or ORDER_NAMESPACE
    values = None
    if any(each.answers for each in found.value.servers):  # else the page says already that none does
        values = await asking.one(namespace, kv_values(context.cluster, namespace))
    shown = None if values is None else {key: mask(key, value) for key, value in values.value.items()}
    data = NameServerPage(found.value, namespace, shown)
    return View("nameservers.html", data, "status", asking.missing, found.as_of_ms)


async def setting_list(context: RequestContext) -> View:
    """Show the settings of one name server."""
    server = _server(context)
    asking = Asking(context.console.world.clock)
    found = await asking.needed(name_server_settings(context.cluster, server))
    data: SettingList = chosen(context, server, 0, found.value)
    return View("nameserver_settings.html", data, "nameserver config get", asking.missing, found.as_of_ms)


async def setting_page(context: RequestContext) -> View:
    """Show one setting at all name servers, with a form to change it."""
    asking = Asking(context.console.world.clock)
    rows = await _rows(context, asking)
    data = ServerSetting(context.names["key"], next(iter(rows.values())), rows)
    return View("nameserver_setting.html", data, f"nameserver config get {data.key}", asking.missing, title=data.key)


async def preview_setting(context: RequestContext, form: Form) -> Preview:
    """Return the old values and the new one."""
    asking = Asking(context.console.world.clock)
    key, new = context.names["key"], mask(context.names["key"], setting_value(form))
    context.cluster.forget(*(("settings", server) for server in context.cluster.admin.name_servers))
    old = {server: row.value for server, row in (await _rows(context, asking)).items()}
    data = ChangePreview("setting", key, "", old, new, context.cluster.admin.name_servers)
    change = f"{', '.join(sorted(set(old.values())))} -> {new}"
    return Preview("nameserver_change.html", data, f"nameserver config set {key}={new}", key, change)


async def change_setting(context: RequestContext, form: Form) -> Outcome:
    """Set a value at all name servers."""
    key = context.names["key"]
    servers = await context.cluster.admin.change_name_server_settings({key: setting_value(form)})
    context.cluster.forget(*(("settings", server) for server in servers))
    fields = {"key": key, "servers": ", ".join(servers)}
    return Outcome("nameservers.setting_changed", fields, f"nameservers/settings/{key}")


async def preview_value(context: RequestContext, form: Form) -> Preview:
    """Return the old and the new value of a key in the table."""
    namespace, key = _field(form, "namespace"), _field(form, "key")
    delete = form.get("to") == "delete"
    new = "" if delete else mask(key, setting_value(form))
    if not delete and not new:
        raise BadInput("nameservers.no_value")
    value = await context.cluster.admin.kv_value(namespace, key)
    old = "" if value is None else mask(key, value)
    data = ChangePreview(
        "delete" if delete else "put", key, namespace, {"": old}, new, context.cluster.admin.name_servers
    )
    return Preview("nameserver_change.html", data, "", f"{namespace} {key}", f"{old or '-'} -> {new or '-'}")


async def change_value(context: RequestContext, form: Form) -> Outcome:
    """Set or remove a key of the table at all name servers."""
    namespace, key = _field(form, "namespace"), _field(form, "key")
    admin = context.cluster.admin
    if form.get("to") == "delete":
        await admin.delete_kv_value(namespace, key)
    else:
        await admin.put_kv_value(namespace, key, setting_value(form))
    context.cluster.forget(("kv", namespace))
    return Outcome("nameservers.value_changed", {"namespace": namespace, "key": key}, "nameservers")


def _server(context: RequestContext) -> str:
    """Return the name server of the parameter, one of those that the operator gave."""
    servers = context.cluster.admin.name_servers
    server = context.text("server") or servers[0]
    if server not in servers:
        raise NotFound("nameservers.no_such", server=server[:80])
    return server


async def _rows(context: RequestContext, asking: Asking) -> dict[str, SettingRow]:
    """Return the setting of the path at each name server that answers."""
    servers = context.cluster.admin.name_servers
    found = await asking.all({server: name_server_settings(context.cluster, server) for server in servers})
    if not found:
        raise NotFound("nameservers.none_answers")
    return {server: setting_of(each.value, context.names["key"]) for server, each in found.items()}


def _field(form: Form, name: str) -> str:
    value = form.get(name, "").strip()
    if not value or len(value) > _MOST_CHARACTERS or not value.isprintable():
        raise BadInput("nameservers.no_key", name=name)
    return value


SECTION = Section(
    pages=(
        Page("/nameservers", "nameservers.title", Role.VIEWER, server_list, nav="nameservers"),
        Page("/nameservers/settings", "nameservers.settings", Role.VIEWER, setting_list, None, nav="nameservers"),
        Page("/nameservers/settings/{key}", "brokers.setting", Role.VIEWER, setting_page, None, nav="nameservers"),
    ),
    actions=(
        Action(
            "/nameservers/settings/{key}",
            "nameservers.change",
            Role.ADMIN,
            change_setting,
            preview_setting,
            fields=("value",),
        ),
        Action(
            "/nameservers/kv",
            "nameservers.change_value",
            Role.ADMIN,
            change_value,
            preview_value,
            fields=("namespace", "key", "to", "value"),
            page="/nameservers",
        ),
    ),
)
