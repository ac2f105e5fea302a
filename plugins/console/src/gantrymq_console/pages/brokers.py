"""Brokers: the list, one broker, and the actions of administrators."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from gantrymq.client.admin import CLEANINGS
from gantrymq_admin.asking import Asking
from gantrymq_admin.elected import forget_broker
from gantrymq_admin.figures import Figure
from gantrymq_console.access.users import Role
from gantrymq_console.data.brokers import (
    BrokerState,
    CopyRow,
    accepts_sends,
    copies_of_name,
    elected_set,
    figures_of,
    overview,
    runtime_info,
    state_of,
)
from gantrymq_console.data.cluster import BrokerAddress
from gantrymq_console.data.cluster_picture import PicturedName, engines_of, picture_of
from gantrymq_console.pages import broker_settings
from gantrymq_console.pages.broker_settings import named
from gantrymq_console.pages.history import with_history
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Conflict, Form, Outcome, Page, Preview, Section, View


@attrs.frozen
class BrokerList:
    """All brokers, and copies of their logs that only masters know."""

    brokers: tuple[BrokerState, ...]
    unregistered: tuple[tuple[str, CopyRow], ...]  # with the broker name: slaves that are not registered, or are lost
    picture: tuple[PicturedName, ...]


@attrs.frozen
class BrokerPage:
    """One broker."""

    broker: BrokerState
    info: Mapping[str, str]  # by RocketMQ's names
    figures: tuple[Figure, ...] | None  # of plugins; None: not served
    writable: bool | None  # at the name servers; None: not known
    copies: tuple[CopyRow, ...] | None  # of its broker name; empty without replication; None: not known


@attrs.frozen
class CleanPreview:
    """Preview of a clean-up: the state before it."""

    broker: str
    what: str
    log_bytes: Long | None
    disk_used: float | None


@attrs.frozen
class DismissPreview:
    """A broker that is not registered any more, and would be missed for some time."""

    broker: str  # with the id of a slave
    address: str
    last_ms: int | None  # when the name servers last had it; None: not since the console runs
    until_ms: int | None  # when it is not missed any more without a change
    master: bool


@attrs.frozen
class ForgetPreview:
    """A broker of an elected set that is gone for good."""

    broker: str
    member: int  # its id in the set


async def broker_list(context: RequestContext) -> View:
    """Show all brokers."""
    asking = Asking(context.console.world.clock)
    found = await asking.needed(overview(context.cluster))
    answering = {each.name for each in found.value.brokers if each.registered and each.answers}
    silent = found.value.silent
    copies = await asking.all({name: copies_of_name(context.cluster, name, silent) for name in sorted(answering)})
    unregistered = tuple((name, each) for name, rows in copies.items() for each in rows if each.broker_id is None)
    engines = await engines_of(context.cluster, [name for name, rows in copies.items() if rows])
    data = BrokerList(found.value.brokers, unregistered, picture_of(found.value.brokers, copies, engines))
    return View("brokers.html", data, "cluster", asking.missing, found.as_of_ms)


async def broker_page(context: RequestContext) -> View:
    """Show one broker."""
    asking = Asking(context.console.world.clock)
    at = await asking.needed(named(context, context.text("id")))
    every = await asking.needed(overview(context.cluster))
    state = next((each for each in every.value.brokers if each.address == at.address), None)
    info: Mapping[str, str] = {}
    figures = writable = copies = None
    if state is None or state.answers:
        got = await asking.one(at.address, runtime_info(context.cluster, at.address))
        info = got.value if got is not None else {}
        figures = await asking.one(at.address, figures_of(context.cluster, at.address))
        writable = await asking.one(at.name, accepts_sends(context.cluster, at.name))
        copies = await asking.one(
            f"replication of {at.name}", copies_of_name(context.cluster, at.name, every.value.silent)
        )
    state = attrs.evolve(state or state_of(at, info), writable=None if at.broker_id else writable)
    shown = BrokerPage(state, info, figures, writable, copies)
    title = shown.broker.title
    view = View("broker.html", shown, "status", asking.missing, every.as_of_ms, title)
    return await with_history(context, view, "broker", title)


# --- clean-up ---


async def clean_preview(context: RequestContext, form: Form) -> Preview:
    """Return a preview of a clean-up, with the present size of the log."""
    at = await named(context, form.get("id", ""))
    what = _cleaning(form)
    state = state_of(at, (await runtime_info(context.cluster, at.address)).value)
    data = CleanPreview(at.name, what, state.log_bytes, state.disk_used)
    command = f"broker clean {what} -b {at.address}"
    return Preview(
        "broker_clean.html", data, command, at.name, f"clean {what}", what, button=f"brokers.do_clean_{what}"
    )


async def clean(context: RequestContext, form: Form) -> Outcome:
    """Clean up at one broker."""
    at = await named(context, form.get("id", ""))
    said = await context.cluster.admin.clean(at.address, _cleaning(form))
    context.cluster.forget("overview", ("runtime", at.address))
    return Outcome("brokers.cleaned", {"name": at.name, "said": said or "-"}, f"brokers/{at.name}", data=said)


def _cleaning(form: Form) -> str:
    what = form.get("what", "")
    if what not in CLEANINGS:
        raise BadInput("common.not_a_choice", name="what", value=what[:40], choices=", ".join(CLEANINGS))
    return what


# --- forgetting ---


async def forget_preview(context: RequestContext, form: Form) -> Preview:
    """Return which broker of an elected set is to be forgotten."""
    at, member = await named(context, ""), _member(form)
    command = f"cluster forget {at.name} {member}"
    return Preview("broker_forget.html", ForgetPreview(at.name, member), command, at.name, f"forget broker id {member}")


async def forget(context: RequestContext, form: Form) -> Outcome:
    """Remove a broker from an elected set, by its master."""
    at, member = await named(context, ""), _member(form)
    found = await elected_set(context.cluster, at.name)
    if found is None:
        raise BadInput("brokers.not_elected", name=at.name)
    await forget_broker(context.cluster.admin, found, member)
    context.cluster.dismiss(at.name, member)
    return Outcome("brokers.forgotten", {"name": at.name, "member": member}, f"brokers/{at.name}")


# --- missing no longer ---


async def dismiss_preview(context: RequestContext, form: Form) -> Preview:
    """Return since when a broker is gone, and until when the console would miss it."""
    at = await _gone(context, form)
    last, until = context.cluster.missed_ms(at.name, at.broker_id)
    data = DismissPreview(at.title, at.address, last, until, not at.broker_id)
    return Preview("broker_dismiss.html", data, "", at.title, "not missed any more", (at.title, at.address))


async def dismiss(context: RequestContext, form: Form) -> Outcome:
    """Let the console miss a broker no longer."""
    at = await _gone(context, form)
    context.cluster.dismiss(at.name, at.broker_id)
    return Outcome("brokers.dismissed", {"name": at.title}, "brokers")


async def _gone(context: RequestContext, form: Form) -> BrokerAddress:
    """Return the broker of the form. Raises Conflict: it is registered, or missed because of a registered slave."""
    at = await named(context, form.get("id", ""))
    context.cluster.forget("brokers")
    registered = [each for each in await context.cluster.brokers() if each.name == at.name]
    if any(each.broker_id == at.broker_id for each in registered):
        raise Conflict("brokers.is_registered", name=at.name)
    if not at.broker_id and registered:
        raise Conflict("brokers.slave_registered", name=at.name, slave=f"{at.name}:{registered[0].broker_id}")
    return at


def _member(form: Form) -> int:
    text = form.get("member", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text)):
        raise BadInput("brokers.no_member", value=text[:40])
    return int(text)


SECTION = Section(
    pages=(
        Page("/brokers", "brokers.title", Role.VIEWER, broker_list, nav="brokers"),
        Page("/brokers/{broker}", "brokers.one", Role.VIEWER, broker_page, nav="brokers"),
        *broker_settings.PAGES,
    ),
    actions=(
        Action(
            "/brokers/{broker}/dismiss",
            "brokers.dismiss",
            Role.OPERATOR,
            dismiss,
            dismiss_preview,
            fields=("id",),
            page="/brokers/{broker}",
        ),
        Action("/brokers/{broker}/clean", "brokers.clean", Role.ADMIN, clean, clean_preview, fields=("id", "what")),
        Action("/brokers/{broker}/forget", "brokers.forget", Role.ADMIN, forget, forget_preview, fields=("member",)),
        *broker_settings.ACTIONS,
    ),
)
