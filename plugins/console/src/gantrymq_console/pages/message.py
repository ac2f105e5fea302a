"""One message: its properties, its body, and which groups consumed it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
from starlette.responses import Response, StreamingResponse

from gantrymq.client import ReceivedMessage
from gantrymq.errors import NoMessageFound
from gantrymq.plugin.client import EndTransaction, Pub, SubAfter, SubBefore
from gantrymq.plugin.names import DLQ_PREFIX
from gantrymq.plugin.properties import REAL_TOPIC
from gantrymq.plugin.sys_flag import INNER_BATCH
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.consumption import Consumption, Reason, Traced, Verdict, consumers_of
from gantrymq_admin.consumption.evidence import Evidence, as_json, evidence, missing_sentence
from gantrymq_console.access.users import Role
from gantrymq_console.data import bodies, messages, resends
from gantrymq_console.data.messages import MessageDetails
from gantrymq_console.data.resends import SentAgain, SourceLetter
from gantrymq_console.data.topics import kind_by_name, own_topics
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Download, Page, Section, View

MOST: Final = 200
_ORDER: Final = ("born", "sent", "not_sent", "stored", "delivered")  # of events in one millisecond; others are later
_STATES: Final = {"COMMIT_MESSAGE": "committed", "ROLLBACK_MESSAGE": "rolled_back"}
_LARGE_BYTES: Final = 16 * 1024
_BY_POSITIONS: Final = (Reason.PASSED, Reason.POPPED, Reason.CONSUMED_AFTER_RETRIES)
_SIGNS: Final = {
    Reason.CONSUMED: "good",
    Reason.CONSUMED_AFTER_RETRIES: "unknown",
    Reason.DEAD_LETTER: "bad",
    Reason.FAILED: "bad",
    Reason.WAITING_RETRY: "warn",
    Reason.NOT_YET: "warn",
    Reason.HANDED_OUT: "warn",
    Reason.FILTERED: "unknown",
    Reason.PASSED: "unknown",
    Reason.POPPED: "unknown",
    Reason.BROADCASTING: "unknown",
    Reason.NO_POSITION: "unknown",
    Reason.UNKNOWN: "unknown",
}
"""Words of the macro ``status`` by reason."""


@attrs.frozen
class Moment:
    """One event, with the key and the fields of its sentence."""

    time_ms: int | None  # None: not recorded
    key: str
    sign: str  # good, bad or unknown
    fields: Mapping[str, Any] = attrs.field(factory=dict)


def timeline(message: MessageDetails, trace: Sequence[Traced]) -> list[Moment]:
    """Return up to `MOST` events of a message in the order of time, from its record and from the message trace.

    Times in a trace are from the clock of the client that wrote it.
    """
    stored = {"broker": message.broker or message.store_host}
    found = [Moment(message.stored_ms, "message.line.stored", "good", stored)]
    if not any(isinstance(each.record, Pub) for each in trace):
        found.append(Moment(message.born_ms, "message.line.born", "unknown", {"client": message.born_host}))
    groups = {each.record.request_id: each.record.group for each in trace if isinstance(each.record, SubBefore)}
    found += [_moment(each, groups) for each in trace]
    found.sort(key=_order)
    return found[:MOST]


def _order(moment: Moment) -> tuple[int, int]:
    word = moment.key.rpartition(".")[2]
    at = moment.time_ms if moment.time_ms is not None else 2**63
    return at, _ORDER.index(word) if word in _ORDER else len(_ORDER)


def _moment(traced: Traced, groups: Mapping[str, str]) -> Moment:
    record, client = traced.record, traced.born_host
    match record:
        case Pub():
            sent = "sent" if record.success else "not_sent"
            fields = {"client": client, "group": record.group, "took": record.cost_ms}
            return Moment(record.time_ms, f"message.line.{sent}", _sign(record.success), fields)
        case SubBefore():
            fields = {"client": client, "group": record.group, "failures": record.retry_times}
            return Moment(record.time_ms, "message.line.delivered", "unknown", fields)
        case SubAfter():
            ended = "consumed" if record.success else "failed"
            group = record.group or groups.get(record.request_id, "")
            fields = {"client": client, "group": group, "took": record.cost_ms}
            return Moment(record.time_ms or None, f"message.line.{ended}", _sign(record.success), fields)
        case EndTransaction():
            word = _STATES.get(record.state, "undecided")
            fields = {"client": client, "group": record.group}
            return Moment(record.time_ms, f"message.line.{word}", "unknown", fields)


def _sign(success: bool) -> str:
    return "good" if success else "bad"


@attrs.frozen
class GroupLine:
    """The verdict on one group, for the template."""

    verdict: Verdict
    sign: str
    evidence: Evidence


@attrs.frozen
class MessagePage:
    """A message and who consumed it."""

    facts: messages.MessageDetails
    is_offset_id: bool  # whether the id of the address is the offset id
    named_address: str  # the address in the offset id, if the broker has another one now
    address: str  # of the broker now
    same_id: int  # other messages with the same unique id
    number: int  # index of this one, from 0
    at: str  # broker:queue:offset, if no id finds it
    body: bodies.Body | None  # None if the user's role does not permit to read it
    form: str
    whole: bool
    may_send: bool
    send_to: str  # topic that copies can be sent to; empty if there is none
    consumers: Mapping[str, Any]
    timeline: Sequence[Moment]
    consumption: Consumption = attrs.field(metadata={"json": False})
    lines: Sequence[GroupLine] = attrs.field(metadata={"json": False})
    resent: SentAgain | None = None  # of a dead letter: whether it was sent again; None for other messages, and unknown
    source: SourceLetter | None = None  # the dead letter that it was sent again from

    @property
    def may_deliver(self) -> bool:
        """Whether it can be delivered to one member: brokers do that with whole inner batches only."""
        return not self.facts.sys_flag & INNER_BATCH

    @property
    def by_positions(self) -> bool:
        """Whether a verdict follows from offsets alone, so that a message trace would help."""
        return any(each.verdict.reason in _BY_POSITIONS for each in self.lines)


async def show(context: RequestContext) -> View:
    """Show a message by its offset id, or by its unique id and topic."""
    message_id, topic = context.names["id"], context.text("topic")
    form, whole = context.choice("form", bodies.FORMS), context.choice("whole", ("no", "yes")) == "yes"
    number, start = context.number("number", 0, at_most=31), context.start
    asking = Asking(context.console.world.clock)
    most = bodies.WHOLE_BYTES if whole else bodies.SHOWN_BYTES
    found = await messages.by_id(context.cluster, asking, topic, message_id, context.text("at"), most)
    if number >= len(found):
        raise NoMessageFound(f"there are {len(found)} messages with the id {message_id}, not {number + 1}")
    message = found[number]
    consumption = await consumers_of(
        context.cluster.admin,
        context.cluster.reader,
        message,
        clock=context.console.world.clock,
        deadline_s=asking.left_s,
        start=start,
        most=context.rows,
        brokers=await context.cluster.addresses(),
        is_only=len(found) == 1 and not context.text("at") and messages.found_by_unique_id(message, message_id, asking),
    )
    body = None
    if context.may(Role.READER):
        body = await _body(context, message, form, most)
        await context.console.record_read(context, "message.title", f"{message.topic} {message_id}")
    facts = messages.details_of(message)
    data = MessagePage(
        facts,
        message.offset_id.lower() == message_id.lower(),
        *await _moved(context, message),
        len(found) - 1,
        number,
        context.text("at"),
        body,
        form,
        whole,
        context.may(Role.OPERATOR),
        await _send_to(context, facts),
        as_json(consumption),
        timeline(facts, consumption.trace),
        consumption,
        _lines(consumption),
        await _resent(context, asking, message),
        resends.source_of(message),
    )
    missing = [*asking.missing, *(_missing(each) for each in consumption.missing)]
    context.console.recent.add(context.user.name, message.topic)
    by_topic = "" if data.is_offset_id else f" -t {message.topic}"
    title = message.keys or message_id
    return View("message.html", data, f"message consumers {message_id}{by_topic}", missing, title=title)


async def _resent(context: RequestContext, asking: Asking, message: ReceivedMessage) -> SentAgain | None:
    if not message.topic.startswith(DLQ_PREFIX):
        return None
    return await resends.of_letter(context.cluster, context.console.resend_notes, asking, message)


async def _moved(context: RequestContext, message: ReceivedMessage) -> tuple[str, str]:
    """Return the address in the offset id of a message and the address of its broker; empty texts if they are equal."""
    now = (await context.cluster.masters()).get(message.broker_name)
    return (message.store_host, now) if now not in (None, message.store_host) else ("", "")


async def _send_to(context: RequestContext, facts: messages.MessageDetails) -> str:
    """Return the topic of a message, or the one that a message in a system topic waits for; empty if it is not known.

    Nothing can be sent to system topics.
    """
    own = await own_topics(context.cluster)
    topics = (facts.topic, facts.system_properties.get(REAL_TOPIC, ""))
    return next((topic for topic in topics if topic and kind_by_name(topic, own) != "system"), "")


async def _body(context: RequestContext, message: ReceivedMessage, form: str, most: int) -> bodies.Body:
    """Return the body to show; a large one is made in a thread, because that takes a part of a second."""
    make = partial(bodies.body_of, message.body, message.body_problem, form, most, is_shortened=message.is_shortened)
    if min(len(message.body), most) < _LARGE_BYTES:
        return make()
    return await context.console.world.workers.run(make)


def _lines(found: Consumption) -> list[GroupLine]:
    if found.message is None:
        return []
    return [GroupLine(each, _SIGNS[each.reason], evidence(found.message, each)) for each in found.verdicts]


def _missing(each: Any) -> Missing:
    return Missing(each.group or each.broker or "?", each.why, missing_sentence(each), each.code)


async def download(context: RequestContext) -> Response:
    """Send the whole body as a file."""
    message_id = context.names["id"]
    asking = Asking(context.console.world.clock)
    found = await messages.by_id(context.cluster, asking, context.text("topic"), message_id, context.text("at"))
    message: ReceivedMessage = found[context.number("number", 0, at_most=len(found) - 1)]
    name = "".join(each for each in message_id if each.isalnum())[:64]
    return StreamingResponse(
        _parts(await messages.whole_parts(context.cluster, message)),
        media_type="application/octet-stream",
        headers={"Content-Disposition": f'attachment; filename="{name}.bin"'},
    )


async def _parts(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    for each in parts:
        yield each


SECTION = Section(
    pages=(Page("/messages/{id}", "message.title", Role.VIEWER, show, refresh_s=None, nav="topics"),),
    downloads=(Download("/messages/{id}/body", "message.download", Role.READER, download, bodies=True),),
)
