"""The visitor's account, the audit log, and the versions and licenses of the console's parts."""

from __future__ import annotations

import platform
import tomllib
from collections.abc import Mapping
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import Final, cast

import attrs
from starlette.responses import Response, StreamingResponse

from gantrymq.client.admin import RequestNotServed
from gantrymq.errors import BrokerRefused
from gantrymq.plugin.remoting import RequestCode
from gantrymq_admin.asking import Asking
from gantrymq_console.access.audit import Entry
from gantrymq_console.access.users import Role
from gantrymq_console.data.cluster import Cluster
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, Confirm, Download, Form, Outcome, Page, Section, View

_PROBED_AGE_S: Final = 600.0
_REQUESTS: Final = {
    "explain": 65021,
    "figures": 65022,
    "groups": 65023,
    "connections": 65024,
    "topics": 65025,
    "settings": 65026,
    "pending": 65001,
    "transactions": 65011,
}
"""Requests of GantryMQ's own that change nothing, by the word of their text."""
_PACKAGES: Final = ("gantrymq", "gantrymq-console", "gantrymq-admin", "starlette", "uvicorn", "h11", "Jinja2")


@attrs.frozen
class VendoredFile:
    """One file."""

    name: str
    package: str  # at npm
    version: str
    path: str  # in the package
    license: str
    license_file: str
    sha256: str


@cache
def vendored() -> tuple[VendoredFile, ...]:
    """Return all files."""
    text = files("gantrymq_console").joinpath("static", "vendor", "VENDORED.toml").read_text("utf-8")
    return tuple(VendoredFile(**each) for each in tomllib.loads(text)["file"])


@attrs.frozen
class DecoderFact:
    """A decoder of bodies."""

    topics: str  # pattern; empty if it cannot be used
    title: str
    source: str  # distribution; empty for those of the console
    problem: str


@attrs.frozen
class AboutPage:
    """Versions, requests and licenses."""

    versions: Mapping[str, str]
    requests: Mapping[str, int]  # word to code
    served: Mapping[str, Mapping[str, bool]]  # by broker name, then word
    vendored: tuple[VendoredFile, ...]
    decoders: tuple[DecoderFact, ...]


async def about(context: RequestContext) -> View:
    """Show the versions of the console's parts and the capabilities of brokers."""
    asking = Asking(context.console.world.clock)
    masters = await asking.one("brokers", context.cluster.masters()) or {}
    probes = {
        name: context.cluster.shared(("served", at), _PROBED_AGE_S, partial(_served, context.cluster, at))
        for name, at in masters.items()
    }
    served = {name: each.value for name, each in (await asking.all(probes)).items()}
    versions = {"Python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}
    rules = await context.console.world.workers.run(context.console.decoders.rules)
    decoders = tuple(DecoderFact(each.pattern, each.title, each.source, each.problem) for each in rules)
    return View("about.html", AboutPage(versions, _REQUESTS, served, vendored(), decoders), "", asking.missing)


async def _served(cluster: Cluster, address: str) -> dict[str, bool]:
    """Return which requests a broker serves; a refusal for another reason than an unknown code counts as served."""
    found = {}
    for word, code in _REQUESTS.items():
        try:
            await cluster.admin.request(address, cast("RequestCode", code))
            found[word] = True
        except RequestNotServed:
            found[word] = False
        except BrokerRefused:
            found[word] = True
    return found


@attrs.frozen
class AccountData:
    """The account."""

    user: str
    role: Role
    roles: tuple[Role, ...]  # all roles, for the explanation
    sessions: int  # 0 without log-in
    by_cluster: bool  # whether the cluster decides what the user may do
    csrf_token: str  # for X-CSRF-Token in requests of scripts with the cookie of a session


async def account(context: RequestContext) -> View:
    """Show the account."""
    user = context.user
    sessions = context.console.identities.sessions_of(user.name)
    by_cluster = user.credentials is not None
    data = AccountData(user.name, user.role, tuple(Role), sessions, by_cluster, context.token)
    return View("account.html", data)


async def log_out(context: RequestContext, form: Form) -> Outcome:
    """End this session, or all sessions of the user."""
    context.console.identities.log_out(context.request, everywhere=form.get("everywhere") == "yes")
    return Outcome("account.logged_out")


@attrs.frozen
class AuditPage:
    """A page of the log, the newest first."""

    filter: str
    start: int
    total: Long
    entries: tuple[Entry, ...]


async def audit_page(context: RequestContext) -> View:
    """Show a page of the entries that contain the filter."""
    wanted = context.text("filter")
    found, total = await context.console.audit.find(wanted, context.start, context.rows)
    return View("audit.html", AuditPage(wanted, context.start, Long(total), tuple(found)))


async def export_audit(context: RequestContext) -> Response:
    """Return the whole log as lines of JSON."""
    headers = {"Content-Disposition": 'attachment; filename="audit.jsonl"'}
    return StreamingResponse(context.console.audit.lines(), media_type="application/octet-stream", headers=headers)


SECTION = Section(
    pages=(
        Page("/about", "about.title", Role.VIEWER, about, None),
        Page("/account", "account.title", Role.VIEWER, account, refresh_s=None),
        Page("/audit", "audit.title", Role.VIEWER, audit_page, nav="audit"),
    ),
    actions=(Action("/logout", "account.log_out", Role.VIEWER, log_out, confirm=Confirm.NONE, fields=("everywhere",)),),
    downloads=(Download("/audit/export", "audit.export", Role.ADMIN, export_audit),),
)
