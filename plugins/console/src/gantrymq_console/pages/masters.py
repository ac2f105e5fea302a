"""The elected master of a broker name: its set, and a planned change with its progress."""

from __future__ import annotations

from shlex import quote
from typing import Final

import attrs

from gantrymq.errors import GantryError
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import masters
from gantrymq_console.data.brokers import elected_set
from gantrymq_console.data.masters import Change, MasterSet, MemberRow, master_set
from gantrymq_console.pages.broker_settings import named
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import Action, BadInput, Conflict, Form, Outcome, Page, Preview, Section, View

_JOB: Final = "master"
_ACTION: Final = "masters.change"


@attrs.frozen
class MasterPage:
    """The set of a broker name."""

    broker: str
    elected: bool | None  # None: not known
    set: MasterSet | None


@attrs.frozen
class ChangePreview:
    """Preview of a planned change."""

    broker: str
    epoch: int
    old: int
    old_address: str
    to: int
    to_address: str
    lag_bytes: Long | None  # of the new master at this moment
    copies: int  # members of the in-sync set
    hands_over: bool
    accepts: bool | None  # whether messages are accepted now


@attrs.frozen
class ChangePage:
    """A change and its progress."""

    id: str
    change: Change
    running: bool
    begun_ms: int
    ended_ms: int | None
    failure: str


async def show(context: RequestContext) -> View:
    """Show the set of a broker name, or why its master cannot be changed."""
    at = await named(context, "")
    asking = Asking(context.console.world.clock, masters.DEADLINE_S)
    found = await asking.one(at.name, master_set(context.cluster, at.name))
    shown = found.value if found is not None else None
    data = MasterPage(at.name, None if found is None else shown is not None, shown)
    as_of = found.as_of_ms if found is not None else None
    return View("broker_master.html", data, f"cluster explain {quote(at.name)}", asking.missing, as_of, at.name)


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return what a change does, with the present lag of the new master."""
    found, to = await _chosen(context, form)
    old = found.member(found.master)
    if old is None or old.id is None or to.id is None:
        raise Conflict("masters.no_master", name=found.broker)
    data = ChangePreview(
        found.broker,
        found.epoch,
        old.id,
        old.address,
        to.id,
        to.address,
        to.lag_bytes,
        len(found.in_sync),
        bool(found.hands_over),
        found.accepts,
    )
    how = (
        f"handover {quote(found.broker)} --to {to.id}" if found.hands_over else f"promote {quote(found.broker)} {to.id}"
    )
    steady = attrs.evolve(data, lag_bytes=None)
    changes = f"master {old.id} -> {to.id}, epoch {found.epoch}"
    return Preview("broker_master_preview.html", data, f"cluster {how}", found.broker, changes, steady)


async def change(context: RequestContext, form: Form) -> Outcome:
    """Start the change, and show its progress."""
    shown, to = await _chosen(context, form)
    found = await elected_set(context.cluster, shown.broker)
    if found is None or found.epoch != shown.epoch or to.id is None:
        raise Conflict("masters.raced", name=shown.broker)
    progress = Change(
        broker=shown.broker, old=found.master_id, old_epoch=found.epoch, to=to.id, hands_over=bool(shown.hands_over)
    )
    change_text = f"{found.master_id} -> {to.id}"

    async def work(job: Job[Change]) -> None:
        result = "failed: cancelled"
        try:
            await masters.change(context.cluster, found, progress)
            result = _result(progress)
        except GantryError as problem:
            result = f"failed: {problem}"
            raise
        finally:
            await context.console.record_end(context, _ACTION, shown.broker, change_text, result)

    job = context.console.jobs.start(_JOB, context.user.name, progress, work, most=1)
    return Outcome(
        "masters.started", {"name": shown.broker}, f"brokers/{shown.broker}/master/{job.id}", data={"job": job.id}
    )


def _result(progress: Change) -> str:
    if not progress.is_made:
        return f"failed: {progress.problem or 'the master is as before'}"
    return f"broker id {progress.new} is the master of epoch {progress.epoch}"


async def _chosen(context: RequestContext, form: Form) -> tuple[MasterSet, MemberRow]:
    """Return the set as it is now and the new master. Raises Conflict or BadInput: it cannot take over."""
    at, wanted = await named(context, ""), form.get("to", "")
    context.cluster.forget(("elected", at.name))
    found = (
        await Asking(context.console.world.clock, masters.DEADLINE_S).needed(master_set(context.cluster, at.name))
    ).value
    if found is None:
        raise Conflict("masters.fixed", name=at.name)
    if found.hands_over is None:
        raise Conflict("masters.no_master", name=at.name)
    if not (wanted.isascii() and wanted.isdecimal() and len(wanted) < 19):
        raise BadInput("masters.choose", value=wanted[:40])
    to = found.member(int(wanted))
    if to is None:
        raise BadInput("masters.no_member", id=int(wanted), name=at.name)
    if to.master:
        raise Conflict("masters.is_master", id=int(wanted), name=at.name)
    if not to.in_sync:
        raise Conflict("masters.not_in_sync", id=int(wanted), members=", ".join(map(str, found.in_sync)) or "-")
    if not to.may_take_over:
        raise Conflict("masters.not_ready", id=int(wanted))
    return found, to


async def show_change(context: RequestContext) -> View:
    """Show how far a change is."""
    job = context.job(_JOB, "masters.no_job", lambda change: change.broker == context.names["broker"])
    data = ChangePage(job.id, attrs.evolve(job.progress), job.is_running, job.begun_ms, job.ended_ms, job.failure)
    command = f"cluster explain {quote(data.change.broker)}"
    return View("broker_master_change.html", data, command, title=data.change.broker)


SECTION = Section(
    pages=(
        Page("/brokers/{broker}/master", "masters.title", Role.VIEWER, show, nav="brokers"),
        Page(
            "/brokers/{broker}/master/{job}", "masters.progress", Role.ADMIN, show_change, refresh_s=1.0, nav="brokers"
        ),
    ),
    actions=(Action("/brokers/{broker}/master", _ACTION, Role.ADMIN, change, preview, fields=("to",)),),
)
