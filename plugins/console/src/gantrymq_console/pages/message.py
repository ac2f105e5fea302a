"""One message: its properties, its body, and which groups consumed it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs
from markupsafe import Markup
from starlette.responses import Response, StreamingResponse

from gantrymq.client import ReceivedMessage
from gantrymq.errors import NoMessageFound
from gantrymq.plugin.names import DLQ_PREFIX
from gantrymq.plugin.properties import REAL_TOPIC, RETRY_TOPIC
from gantrymq.plugin.sys_flag import INNER_BATCH
from gantrymq_admin.asking import Asking, Missing
from gantrymq_admin.consumption import Consumption, Reason, Verdict, consumers_of
from gantrymq_admin.consumption.evidence import Evidence, as_json, evidence, missing_sentence
from gantrymq_console.access.users import Role
from gantrymq_console.data import messages, resends
from gantrymq_console.data.body_forms import CHARSETS, FORMS, SHOWN_BYTES, WHOLE_BYTES, Body, body_of, decoded_body
from gantrymq_console.data.body_parts import READ_BYTES, Hits, Part, find, part_of
from gantrymq_console.data.resends import SentAgain, SourceLetter
from gantrymq_console.data.timeline import Moment, timeline
from gantrymq_console.data.topics import kind_by_name, own_topics
from gantrymq_console.decoders.registry import MOST_BYTES, Decoded
from gantrymq_console.web.body_html import json_html, text_html
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.lanes import lanes
from gantrymq_console.web.pages import Download, Page, Section, View
from gantrymq_console.web.render import time

_LARGE_BYTES: Final = 16 * 1024
_LAST: Final = "last"  # value of the parameter "from"
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
class GroupLine:
    """The verdict on one group, for the template."""

    verdict: Verdict
    sign: str
    evidence: Evidence


@attrs.frozen
class BodyView:
    """How a body is asked for and shown."""

    body: Body
    find: str  # text that is searched for
    hits: Hits | None
    decoded: Decoded | None
    size: int | None  # bytes of the whole body; None if it was not decompressed to its end
    part_bytes: int
    forms: Sequence[str]
    html: Markup
    is_tree: bool

    @property
    def previous(self) -> int | None:
        """The byte with which the part before begins."""
        return max(0, self.body.start - self.part_bytes) if self.body.start else None

    @property
    def next(self) -> int | None:
        """The byte with which the part behind begins."""
        return self.body.end if self.size is None or self.body.end < self.size else None


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
    body: Body | None  # None if the user's role does not permit to read it
    form: str
    charset: str  # as asked for; empty: UTF-8, or hexadecimal digits
    whole: bool
    may_send: bool
    send_to: str  # topic that copies can be sent to; empty if there is none
    consumers: Mapping[str, Any]
    timeline: Sequence[Moment]
    hits: Hits | None  # of a search in the body
    decoder: Decoded | None  # the decoder of the topic, if it was asked, and why it has failed
    consumption: Consumption = attrs.field(metadata={"json": False})
    lines: Sequence[GroupLine] = attrs.field(metadata={"json": False})
    view: BodyView | None = attrs.field(metadata={"json": False})
    picture: Markup = attrs.field(metadata={"json": False})
    sentences: Sequence[Markup] = attrs.field(metadata={"json": False})  # of *timeline*
    resent: SentAgain | None = None  # of a dead letter: whether it was sent again; None for other messages, and unknown
    source: SourceLetter | None = None  # the dead letter that it was sent again from
    charsets: Sequence[str] = attrs.field(default=tuple(CHARSETS), metadata={"json": False})

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
    asked = _asked(context)
    number, start = context.number("number", 0, at_most=31), context.start
    asking = Asking(context.console.world.clock)
    found = await messages.by_id(context.cluster, asking, topic, message_id, context.text("at"), asked.part_bytes)
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
    view = None
    if context.may(Role.READER):
        view = await _body(context, message, asked)
        await context.console.record_read(context, "message.title", f"{message.topic} {message_id}")
    resent = await _resent(context, asking, message)
    facts, lines = messages.details_of(message), _lines(consumption)
    moments = timeline(facts, consumption.trace, consumption.verdicts, resent)
    sentences = [_sentence(context, each) for each in moments]
    data = MessagePage(
        facts,
        message.offset_id.lower() == message_id.lower(),
        *await _moved(context, message),
        len(found) - 1,
        number,
        context.text("at"),
        view.body if view is not None else None,
        asked.form,
        asked.charset,
        asked.part_bytes == WHOLE_BYTES,
        context.may(Role.OPERATOR),
        await _send_to(context, facts),
        as_json(consumption),
        moments,
        view.hits if view is not None else None,
        view.decoded if view is not None else None,
        consumption,
        lines,
        view,
        lanes(context, moments, sentences, [_named(context, each) for each in lines]),
        sentences,
        resent,
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


@attrs.frozen
class _Asked:
    """What the address says about the body."""

    form: str
    charset: str
    start: int | None  # byte; None: the last part
    part_bytes: int
    find: str


def _asked(context: RequestContext) -> _Asked:
    last = context.text("from") == _LAST
    return _Asked(
        context.choice("form", FORMS),
        context.choice("charset", ("", *CHARSETS)),
        None if last else context.number("from", 0),
        WHOLE_BYTES if context.choice("whole", ("no", "yes")) == "yes" else SHOWN_BYTES,
        context.request.query_params.get("find", ""),
    )


async def _body(context: RequestContext, message: ReceivedMessage, asked: _Asked) -> BodyView:
    """Return the body to show; a large one is read and made in a thread, because that takes a part of a second."""
    world = context.console.world
    run = world.workers.run
    rule = await run(context.console.decoders.of, _topic_of(message))
    decoded = None
    if rule is not None and asked.form in FORMS[:2] and asked.start == 0 and not _damage(message):
        data = message.body
        if message.is_shortened:
            parts = await messages.open_body(context.cluster, message, READ_BYTES)
            data = (await run(part_of, parts, 0, MOST_BYTES + 1)).data
        decoded = await rule.decode(world.clock, _topic_of(message), data, message.properties)
    hits, size = None, None if message.is_shortened else len(message.body)
    if asked.find:
        parts = await messages.open_body(context.cluster, message, READ_BYTES)
        hits = await run(find, parts, asked.find, asked.charset or "utf-8")
        size = int(hits.searched) if size is None and not (hits.problem or hits.unwritable) else size
    if asked.start == 0:
        part = Part(0, message.body[: asked.part_bytes], size)
    else:
        parts = await messages.open_body(context.cluster, message, READ_BYTES)
        part = await run(part_of, parts, asked.start, asked.part_bytes)
    size = part.size if size is None else size

    def made() -> BodyView:
        if decoded is not None and not decoded.problem:
            body = decoded_body(decoded.text, len(data))
            return view_of(body, len(data), json_html(body))
        problem = part.problem or _damage(message)
        body = body_of(
            part.data,
            problem,
            "auto" if asked.form == "decoded" else asked.form,
            asked.part_bytes,
            is_shortened=size is None,
            charset=asked.charset,
            start=part.start,
            size=size,
        )
        return view_of(body, size, json_html(body) if body.form == "json" else None)

    def view_of(body: Body, size: int | None, tree: Markup | None) -> BodyView:
        found = asked.find if body.form == "text" and hits is not None and hits.count else ""
        html = text_html(body.marked, found) if tree is None else tree
        forms = FORMS[1:] if rule is not None else FORMS[2:]
        return BodyView(body, asked.find, hits, decoded, size, asked.part_bytes, forms, html, tree is not None)

    return made() if len(part.data) < _LARGE_BYTES and decoded is None else await run(made)


def _topic_of(message: ReceivedMessage) -> str:
    """Return the topic for which the body was made; that of retries, dead letters and delays is in a property."""
    given = message.properties
    return given.get(RETRY_TOPIC) or given.get(REAL_TOPIC) or message.topic


def _damage(message: ReceivedMessage) -> str:
    """Return why the body is not the one that was sent; empty if it is only shortened."""
    return "" if message.is_shortened else message.body_problem


def _sentence(context: RequestContext, moment: Moment) -> Markup:
    """Return the sentence of an event."""
    fields = {
        name: time(context, each, relative=False) if name.endswith("_at") else each
        for name, each in moment.fields.items()
    }
    return context.texts(moment.key, **fields)


def _named(context: RequestContext, line: GroupLine) -> tuple[str, str, str]:
    reason = line.verdict.reason.value.replace("-", "_")
    return line.verdict.group, line.sign, context.texts.plain(f"message.reason.{reason}")


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
