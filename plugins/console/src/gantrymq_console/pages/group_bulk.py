"""Changes of several groups at once: choose them, see the numbers of all, watch the results by row."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from shlex import quote
from typing import Any, Final

import attrs

from gantrymq_admin.asking import Asking
from gantrymq_console.access.audit import AuditUnwritable, Entry
from gantrymq_console.access.users import Role
from gantrymq_console.data import group_bulk, groups
from gantrymq_console.data.group_bulk import MOST, BulkRow, Change, Progress, Wanted
from gantrymq_console.data.table import oldest_ms
from gantrymq_console.pages.group_offsets import steady_of, target_of, to_text
from gantrymq_console.pages.groups import command_of
from gantrymq_console.values import Long
from gantrymq_console.web import responses
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import Action, BadInput, Confirm, Form, Outcome, Page, Preview, Section, View

log = logging.getLogger(__name__)

_JOB: Final = "bulk"
_CHOSEN: Final = "group."  # prefix of the names of checkboxes
_LISTED: Final = "listed."  # prefix of the names of hidden fields, one for each group of the page
_TARGETS: Final = ("time", "first", "last")
_SCOPES: Final = ("chosen", "page")
_PLANNED: Final = "planned"  # field of a confirmation: the groups that its preview said would be changed
_FIELDS: Final = ("scope", "groups", f"{_CHOSEN}*", f"{_LISTED}*")
_OF_RESET: Final = ("target", "time", "time_utc", "topic")
_MOST_TOLD: Final = 2000  # characters of names in the audit log


@attrs.frozen
class BulkForms:
    """The list of groups to choose from, and the forms."""

    filter: str
    kind: str
    sort: str
    down: bool
    start: int
    total: int
    partial: bool
    groups: Sequence[groups.GroupRow]
    targets: Sequence[str] = _TARGETS
    may_delete: bool = False


@attrs.frozen
class BulkPreview:
    """Preview of a change of several groups."""

    change: Change
    count: int  # groups
    time_ms: int | None
    topic: str
    clean_offsets: bool
    rows: Sequence[BulkRow]
    planned: int  # rows that will change
    skipped: Long
    read_again: Long
    commands: Sequence[str]


@attrs.frozen
class BulkJob:
    """A run and its results so far."""

    id: str
    change: Change
    running: bool
    stopped: bool
    failure: str
    rows: Sequence[BulkRow]
    done: int
    refused: int
    unknown: int
    left: int


async def forms(context: RequestContext) -> View:
    """Show the groups to choose from."""
    asking = Asking(context.console.world.clock)
    found = await groups.group_list(context.cluster, asking, context.list_query("kind", groups.KINDS, groups.SORTS))
    rows = found.groups
    data = BulkForms(
        *(found.filter, found.kind, found.sort, found.down, context.start, found.total, found.partial, rows),
        may_delete=context.may(Role.ADMIN),
    )
    return View("group_bulk.html", data, "", asking.missing, oldest_ms(rows))


async def _preview(change: Change, context: RequestContext, form: Form) -> Preview:
    names, wanted = _names(form), _wanted(change, context, form)
    rows = await group_bulk.plan(context.cluster, names, wanted)
    planned = [row for row in rows if row.state == "planned"]
    if not planned:
        raise BadInput("groups.bulk_nothing", why=_why(context, rows[0]))
    commands = [_command(row, wanted) for row in planned]
    data = BulkPreview(
        change,
        len(names),
        wanted.target.time_ms if wanted.target is not None else None,
        wanted.topic,
        wanted.clean_offsets,
        rows,
        len(planned),
        Long(sum(row.skipped or 0 for row in planned)),
        Long(sum(row.read_again or 0 for row in planned)),
        commands,
    )
    steady = [[*_facts(row), steady_of((row.reset,), wanted.target) if row.reset else None] for row in rows]
    target = str(len({row.group for row in planned})) if change == "delete" else _told(names)
    # A group that was left out, because brokers did not answer in time, is not changed if they answer later.
    form = {**form, _PLANNED: " ".join(dict.fromkeys(row.group for row in planned))}
    return Preview(
        "group_bulk_preview.html",
        data,
        "",
        target,
        f"{change}: {_told(names)}",
        steady=steady,
        form=form,
        button=f"groups.bulk_do_{change}",
        button_fields={"count": len({row.group for row in planned})},
    )


def _facts(row: BulkRow) -> list[Any]:
    return [row.group, row.topic, row.state, row.left_out]


async def _run(change: Change, context: RequestContext, form: Form) -> Outcome:
    names, wanted = _names(form), _wanted(change, context, form)
    if _PLANNED in form:
        wanted = attrs.evolve(wanted, planned=frozenset(form[_PLANNED].split()))

    async def work(job: Job[Progress]) -> None:
        await group_bulk.run(context.cluster, job, partial(_audited, context, change))

    job = context.console.jobs.start(_JOB, context.user.name, group_bulk.start(names, wanted), work)
    return Outcome("groups.bulk_started", {"count": len(names)}, f"/bulk/groups/{job.id}", data={"job": job.id})


async def _audited(
    context: RequestContext, change: Change, row: BulkRow, work: Callable[[], Awaitable[BulkRow]]
) -> BulkRow:
    """Run the change of one row between two lines of the audit log. Raises AuditUnwritable: nothing was done."""
    told = (
        f"{row.topic}: skips {int(row.skipped or 0)}, reads {int(row.read_again or 0)} again" if row.topic else change
    )
    entry = Entry(
        context.now_ms(),
        secrets.token_hex(8),
        context.user.name,
        responses.address_of(context),
        f"groups.bulk_{change}",
        row.group,
        told,
    )
    audit = context.console.audit
    await audit.write(entry)
    done, result = row, "failed: cancelled"
    try:
        done = await work()
        result = "done" if done.state == "done" else f"failed: {_why(context, done)}"
    finally:
        try:
            await audit.write(attrs.evolve(entry, time_ms=context.now_ms(), result=result))
        except AuditUnwritable as problem:  # the change was made, and its attempt is in the log
            log.error("the result %r of %s %s is not in the audit log: %s", result, entry.action, row.group, problem)
    return done


def _why(context: RequestContext, row: BulkRow) -> str:
    """Return why a row is not changed."""
    found = row.refusal
    if found is None:
        return row.state
    return found.words or context.texts(found.key, **found.fields).unescape()


async def show_job(context: RequestContext) -> View:
    """Show the results of a run by row."""
    job = _job(context)
    progress: Progress = job.progress
    data = BulkJob(
        job.id,
        progress.wanted.change,
        job.is_running,
        job.stop_asked,
        job.failure,
        progress.rows,
        progress.count("done"),
        progress.count("refused", "nothing"),
        progress.count("unknown"),
        progress.count("planned", "stopped"),
    )
    return View("group_bulk_job.html", data)


async def stop(context: RequestContext, form: Form) -> Outcome:
    """Stop a run; what was changed stays changed."""
    job = _job(context)
    job.stop_asked = True
    return Outcome("groups.bulk_stopping", {}, f"/bulk/groups/{job.id}")


def _job(context: RequestContext) -> Job[Progress]:
    return context.job(_JOB, "dead_letters.no_job")


def _names(form: Form) -> list[str]:
    """Return the chosen groups. Raises BadInput: none, or too many."""
    scope = form.get("scope", "chosen")
    if scope not in _SCOPES:
        raise BadInput("common.not_a_choice", name="scope", value=scope[:40], choices=", ".join(_SCOPES))
    prefix = _CHOSEN if scope == "chosen" else _LISTED
    found = [name.removeprefix(prefix) for name in form if name.startswith(prefix)]
    names = list(dict.fromkeys([*found, *form.get("groups", "").replace(",", " ").split()]))
    if not names:
        raise BadInput("groups.bulk_none")
    if len(names) > MOST:
        raise BadInput("groups.bulk_too_many", most=MOST, count=len(names))
    return names


def _wanted(change: Change, context: RequestContext, form: Form) -> Wanted:
    if change != "reset":
        return Wanted(change, clean_offsets=form.get("clean_offsets") == "on")
    if form.get("target", "time") not in _TARGETS:
        raise BadInput("common.not_a_choice", name="target", value=form["target"][:40], choices=", ".join(_TARGETS))
    return Wanted(change, target_of(context, form), form.get("topic", "").strip())


def _told(names: Sequence[str]) -> str:
    text = ", ".join(names)
    return text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}... ({len(names)} groups)"


def _command(row: BulkRow, wanted: Wanted) -> str:
    group = quote(row.group)
    if wanted.target is not None:
        return f"group reset {group} -t {quote(row.topic)} --to {to_text(wanted.target)}"
    if wanted.change == "delete":
        return f"group delete {group}" + (" --clean-offsets" if wanted.clean_offsets else "")
    assert row.config is not None
    return command_of(row.config)


def _action(change: Change, role: Role, fields: Sequence[str] = ()) -> Action:
    return Action(
        f"/bulk/groups/{change}",
        f"groups.bulk_{change}",
        role,
        partial(_run, change),
        partial(_preview, change),
        Confirm.TYPE_NAME if change == "delete" else Confirm.NUMBERS,
        (*_FIELDS, *_OF_RESET, "clean_offsets", *fields),
        page="/bulk/groups",
    )


SECTION = Section(
    pages=(
        Page("/bulk/groups", "groups.bulk", Role.OPERATOR, forms, refresh_s=None, nav="groups"),
        Page("/bulk/groups/{job}", "groups.bulk_job", Role.OPERATOR, show_job, refresh_s=1.0, nav="groups"),
    ),
    actions=(
        _action("reset", Role.OPERATOR),
        _action("stop", Role.OPERATOR),
        _action("allow", Role.OPERATOR),
        _action("delete", Role.ADMIN),
        Action("/bulk/groups/{job}/stop", "groups.bulk_stop_job", Role.OPERATOR, stop, confirm=Confirm.NONE),
    ),
)
