"""Dead letters of a group: list, causes, and sending them again with a result for each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Final

import attrs

from gantrymq.errors import ClientError
from gantrymq_admin.asking import Asking
from gantrymq_console.access.users import Role
from gantrymq_console.data import dead_letters, resends
from gantrymq_console.data.dead_letters import MOST_COUNTED, Cause, Letter, Progress, Selection, Split
from gantrymq_console.data.group import GroupHead, group_reports, head_of
from gantrymq_console.data.resends import SentAgain
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Conflict,
    Form,
    Outcome,
    Page,
    Preview,
    Section,
    View,
)

_JOB: Final = "resend"
_TARGETS: Final = ("group", "retry", "topic")
_HOURS: Final = ("all", "1", "24", "168")
_PRODUCER_GROUP: Final = "gantrymq-console-resend"  # makes one attempt for each letter
_SENT: Final = ("no", "yes", "unknown", "all")  # whether letters were sent again
_CHOSEN: Final = "letter."  # prefix of the names of checkboxes
_LISTED: Final = "listed."  # prefix of the names of hidden fields, one for each letter of the page
_UNTIL: Final = "until."  # prefix of fields of a confirmation: a broker, and the offset at which its preview ended
_SEEN_AT: Final = "seen_at"  # the time of the preview
_BY_PLACE: Final = {"chosen": _CHOSEN, "page": _LISTED}  # scopes that name each letter
_FIELDS: Final = ("target", "scope", "again", "unknown", *(f"{prefix}*" for prefix in _BY_PLACE.values()))


@attrs.frozen
class LettersPage:
    """Dead letters of a group."""

    group: str
    head: GroupHead | None  # None: brokers keep dead letters of a group that they do not know any more
    hours: str
    since_ms: int  # a fixed time instead of *hours*; 0: none
    until_ms: int  # 0: no bound
    count: Long
    causes: Sequence[Cause]
    partial: bool  # whether a broker did not answer: its letters are not counted
    start: int
    known: int  # letters that are searched, the newest ones
    sent: str  # which of them are listed; see `_SENT`
    letters: Sequence[Letter]
    more: bool  # whether more are on the next page
    looked_at: int  # letters, from the newest on
    sent_again: Mapping[str, SentAgain] | None  # by place; None: unknown, and all letters are listed
    go_on_ms: int  # store time of the last letter looked at, if the time of the page was over; otherwise 0
    may_send: bool
    running: str  # user who sends letters of the group again now; empty: nobody at this console

    @property
    def older(self) -> Long:
        """Number of letters that are not searched."""
        return Long(self.count - self.known)


async def show(context: RequestContext) -> View:
    """Show the newest dead letters and their causes."""
    group, hours = context.names["group"], context.choice("hours", _HOURS)
    asking = Asking(context.console.world.clock)
    since, until = context.number("since", 0) or _since(context, hours), context.number("until", 0)
    head, found = await asyncio.gather(
        _head(context, asking),
        asking.needed(
            context.cluster.shared(
                ("dead letters", group, hours, context.text("since"), until),
                5,
                lambda: dead_letters.letters_of(context.cluster, group, since, until),
            )
        ),
    )
    letters, sent = found.value.letters, context.choice("sent", _SENT)
    picked = await resends.pick(
        *(context.cluster, context.console.resend_notes, asking, group, letters), sent, context.start, context.rows
    )
    late = picked.looked_at < len(letters) and not picked.more
    data = LettersPage(
        group,
        head,
        hours,
        context.number("since", 0),
        until,
        found.value.count,
        found.value.causes[:20],
        bool(found.value.missing),
        context.start,
        len(letters),
        sent,
        picked.letters,
        picked.more,
        picked.looked_at,
        picked.states,
        letters[picked.looked_at - 1].since_ms if late and picked.looked_at else 0,
        context.may(Role.OPERATOR),
        _sender(context, group),
    )
    # The command lists the oldest letters.
    whole = hours == "all" and not (data.since_ms or until) and len(data.letters) == data.count
    command = f"group dlq list {quote(group)}" + (f" --max {int(data.count)}" if data.letters else "") if whole else ""
    fixed = {"hours": None, "since": since} if since and not data.since_ms else None
    missing = {(each.what, each.reason): each for each in (*asking.missing, *found.value.missing)}
    return View("dead_letters.html", data, command, tuple(missing.values()), found.as_of_ms, title=group, fixed=fixed)


async def _head(context: RequestContext, asking: Asking) -> GroupHead | None:
    try:
        return head_of(await group_reports(context.cluster, asking, context.names["group"]))
    except ClientError:
        return None


@attrs.frozen
class ResendPreview:
    """Preview of sending letters again."""

    group: str
    target: str
    count: Long
    places: Sequence[str]  # empty for all in the range
    since_ms: int
    once_more: bool  # also letters that were sent again before
    unknown_too: bool  # also letters that may have been
    split: Split | None  # None: too many to be counted before
    most_counted: int
    until_ms: int  # letters that arrive later are left out; 0 for chosen places

    @property
    def at_most(self) -> bool:
        """Whether letters of *count* may be left out, and it is not known how many."""
        return self.split is None and not (self.once_more and self.unknown_too)


async def preview(context: RequestContext, form: Form) -> Preview:
    """Return how many letters would be sent, and where.

    Letters that arrive after the preview are not sent, and do not change its numbers at the confirmation: a group that
    fails has new ones all the time.
    """
    selection = await dead_letters.bounded(context.cluster, _selection(context, form))
    until_ms = _bound(form, _SEEN_AT) or context.now_ms()
    _check_running(context, selection.group)
    count = await dead_letters.count_selected(context.cluster, selection)
    if not count:
        raise BadInput("dead_letters.nothing")
    places, once_more = selection.places, selection.once_more
    split = None
    if count <= MOST_COUNTED:
        split = await dead_letters.split(context.cluster, context.console.resend_notes, selection)
        if not split.to_send:
            raise BadInput("dead_letters.all_left_out", count=count)
    data = ResendPreview(
        *(selection.group, selection.target, Long(count), places, selection.since_ms, once_more),
        selection.unknown_too,
        split,
        MOST_COUNTED,
        0 if places else until_ms,
    )
    # The command cannot begin at a time.
    chosen = " ".join(map(quote, places)) or ("" if selection.since_ms else "--all")
    command = f"group dlq resend {quote(selection.group)} {chosen} --to {selection.target}" if chosen else ""
    command += " --again" if command and once_more else ""
    number = f"at most {count}" if data.at_most else count if split is None else split.to_send
    told = f"{number} to {selection.target}"
    if not places:
        ends = {f"{_UNTIL}{broker}": str(end) for broker, end in (selection.ends or {}).items()}
        form = {**form, "since": str(selection.since_ms), _SEEN_AT: str(until_ms), **ends}
    return Preview("dead_letters_preview.html", data, command, selection.group, told, form=form)


async def resend(context: RequestContext, form: Form) -> Outcome:
    """Start a job that sends the letters again, and show it."""
    selection = await dead_letters.bounded(context.cluster, _selection(context, form))
    count = await dead_letters.count_selected(context.cluster, selection)
    producer = context.cluster.client.producer(_PRODUCER_GROUP, retries=0)
    notes = context.console.resend_notes
    await notes.load()
    _check_running(context, selection.group)

    async def work(job: Job[Progress]) -> None:
        await dead_letters.resend(context.cluster, producer, notes, selection, job)

    job = context.console.jobs.start(_JOB, context.user.name, Progress(selection.group, Long(count)), work)
    to = f"/groups/{selection.group}/dlq/{job.id}"
    return Outcome("dead_letters.started", {"count": count}, to, data={"job": job.id})


@attrs.frozen
class JobPage:
    """A run and its results so far."""

    id: str
    group: str
    running: bool
    stopped: bool
    total: Long
    sent: Long
    sent_before: Long
    failed: Long
    unknown: Long
    failures: Sequence[tuple[str, str]]
    by_topic: Mapping[str, int]
    next_offset: Mapping[str, int]
    first_ms: int  # store times of the letters that were sent, or may have been; 0: none was
    last_ms: int
    failure: str


async def show_job(context: RequestContext) -> View:
    """Show the progress of a run, and the letters that failed."""
    job = _job(context)
    progress: Progress = job.progress
    data = JobPage(
        job.id,
        progress.group,
        job.is_running,
        job.stop_asked,
        progress.total,
        Long(progress.sent),
        Long(progress.sent_before),
        Long(progress.failed),
        Long(progress.unknown),
        progress.failures,
        progress.by_topic,
        progress.next_offset,
        progress.first_ms,
        progress.last_ms,
        job.failure,
    )
    return View("dead_letters_job.html", data, title=progress.group)


async def stop(context: RequestContext, form: Form) -> Outcome:
    """Stop a run; letters that were sent stay sent."""
    job = _job(context)
    job.stop_asked = True
    return Outcome("dead_letters.stopping", {}, f"/groups/{context.names['group']}/dlq/{job.id}")


def _job(context: RequestContext) -> Job[Progress]:
    return context.job(_JOB, "dead_letters.no_job")


def _sender(context: RequestContext, group: str) -> str:
    """Return the user who sends letters of *group* again now; empty if nobody does at this console."""
    return next((job.owner for job in context.console.jobs.running(_JOB) if job.progress.group == group), "")


def _check_running(context: RequestContext, group: str) -> None:
    """Raises Conflict: letters of *group* are being sent again now."""
    user = _sender(context, group)
    if user:
        raise Conflict("dead_letters.running", group=group, user=user)


def _since(context: RequestContext, hours: str) -> int:
    return 0 if hours == "all" else context.now_ms() - int(hours) * 3_600_000


def _selection(context: RequestContext, form: Form) -> Selection:
    """Return the letters that a form selects. Raises BadInput: none, or a malformed place."""
    target = form.get("target", "group")
    if target not in _TARGETS:
        raise BadInput("common.not_a_choice", name="target", value=target[:40], choices=", ".join(_TARGETS))
    scope = form.get("scope", "chosen")
    if scope not in (*_BY_PLACE, *_HOURS):
        raise BadInput("common.not_a_choice", name="scope", value=scope[:40], choices=", ".join((*_BY_PLACE, *_HOURS)))
    prefix = _BY_PLACE.get(scope, "")
    places = [name.removeprefix(prefix) for name in form if prefix and name.startswith(prefix)]
    for place in places:
        offset = place.rpartition(":")[2]
        if not (offset.isascii() and offset.isdecimal() and len(offset) < 19):
            raise BadInput("dead_letters.bad_place", place=place[:80])
    if prefix and not places:
        raise BadInput("dead_letters.nothing")
    seen = _SEEN_AT in form and not prefix
    since = 0 if prefix else _bound(form, "since") if seen else _since(context, scope)
    ends = {name.removeprefix(_UNTIL): _bound(form, name) for name in form if name.startswith(_UNTIL)}
    again, unknown = bool(form.get("again")), bool(form.get("unknown"))
    return Selection(context.names["group"], target, again, unknown, since, places, ends if seen else None)


def _bound(form: Form, name: str) -> int:
    """Return a bound of a range that a preview had. Raises BadInput: it is not a number."""
    text = form.get(name, "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise BadInput("common.not_a_number", name=name[:40], value=text[:40], least=0, most=10**18)
    return int(text)


SECTION = Section(
    pages=(
        Page("/groups/{group}/dlq", "dead_letters.title", Role.VIEWER, show, nav="groups"),
        Page("/groups/{group}/dlq/{job}", "dead_letters.job", Role.OPERATOR, show_job, refresh_s=1.0, nav="groups"),
    ),
    actions=(
        Action(
            "/groups/{group}/dlq/resend",
            "dead_letters.resend",
            Role.OPERATOR,
            resend,
            preview,
            fields=_FIELDS,
            page="/groups/{group}/dlq",
        ),
        Action("/groups/{group}/dlq/{job}/stop", "dead_letters.stop", Role.OPERATOR, stop, confirm=Confirm.NONE),
    ),
)
