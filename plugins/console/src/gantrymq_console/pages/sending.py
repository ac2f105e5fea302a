"""Sending: a new message by hand, an existing one again, and a delivery to one member."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from gantrymq.client import Message, Producer, ReceivedMessage, SendFailed, SendResult
from gantrymq.errors import BrokerRefused, ClientError, GantryError, NoRoute
from gantrymq.plugin import properties as props
from gantrymq.plugin.client import split_properties
from gantrymq.plugin.model import PERM_WRITE, MessageQueue
from gantrymq.plugin.names import check_topic, retry_topic
from gantrymq.plugin.remoting import ResponseCode
from gantrymq.plugin.sys_flag import INNER_BATCH
from gantrymq_admin.asking import Asking
from gantrymq_admin.dead_letters import again
from gantrymq_console.access.users import Role
from gantrymq_console.data import messages
from gantrymq_console.data.brokers import accepts_sends, state_of
from gantrymq_console.data.cluster import HEAD_BYTES, BrokerAddress
from gantrymq_console.data.topics import kind_by_name, own_topics
from gantrymq_console.values import Long
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import (
    Action,
    BadInput,
    Confirm,
    Form,
    NotAccepted,
    Outcome,
    Page,
    Preview,
    Section,
    View,
)

PRODUCER_GROUP: Final = "gantrymq-console"
_MOST_BYTES: Final = 6 * 1024 * 1024  # 4 MiB of body, encoded in a form
MOST_COPIED: Final = 4 * 1024 * 1024  # of a body in the form of a copy
_ENCODINGS: Final = ("text", "base64", "hex")
_FIELDS: Final = ("body", "encoding", "tags", "keys", "properties", "delay", "queue")
_ONE: Final = ("topic", "number", "at")  # of a message whose id is in the address


async def cause_of(context: RequestContext, topic: str, problem: GantryError) -> Exception:
    """Return the cause of a failed send with links to where it is removed, or *problem* if none is found."""
    code = getattr(problem, "response_code", None)
    try:
        found = None
        if isinstance(problem, NoRoute) or code == ResponseCode.NO_PERMISSION:
            found = await Asking(context.console.world.clock).needed(_closed(context, topic))
        elif code == ResponseCode.SERVICE_NOT_AVAILABLE and isinstance(problem, SendFailed | BrokerRefused):
            found = await Asking(context.console.world.clock).needed(_refusing(context, problem))
    except ClientError:
        return problem
    return found or problem


async def _closed(context: RequestContext, topic: str) -> NotAccepted | None:
    """Return which brokers of the topic take no messages."""
    route = await context.cluster.admin.route(topic)
    unwritable = sorted({each.broker_name for each in route.queues if not each.perm & PERM_WRITE})
    if not unwritable:
        return None
    context.cluster.forget(*(("writable", name) for name in unwritable))
    closed = [name for name in unwritable if await accepts_sends(context.cluster, name) is False]
    if closed:
        links = tuple(("brokers", name) for name in closed)
        return NotAccepted("sending.closed", links, topic=topic, brokers=", ".join(closed))
    return NotAccepted("sending.read_only", (("topics", topic, "settings"),), topic=topic)


async def _refusing(context: RequestContext, problem: SendFailed | BrokerRefused) -> NotAccepted | None:
    """Return why a broker that was tried refuses messages."""
    tried = problem.brokers if isinstance(problem, SendFailed) else (problem.address,)
    for name, address in (await context.cluster.masters()).items():
        if name in tried or address in tried:
            state = state_of(BrokerAddress("", name, 0, address), await context.cluster.admin.runtime_info(address))
            if state.refusal:
                return NotAccepted(
                    "brokers.refuses_why",
                    (("brokers", name),),
                    words=state.refusal,
                    cause=state.refusal_cause,
                    values=state.refusal_values,
                    name=name,
                )
    return None


@attrs.frozen
class Draft:
    """The form of a new message, filled in from an existing one if that is given."""

    topic: str
    body: str
    encoding: str
    keys: str
    tags: str
    properties: str  # a line name=value for each


async def form(context: RequestContext) -> View:
    """Show the form for a message to the topic; ``from`` is the id of a message to copy."""
    topic, source = context.names["topic"], context.text("from")
    await _check_target(context, topic)
    draft = Draft(topic, "", "text", "", "", "")
    if source and context.form is None and context.may(Role.READER):
        source_topic, at = context.text("source_topic") or topic, context.text("at")
        message = await _one(context, source, source_topic, at=at, body_bytes=MOST_COPIED)
        if message.is_shortened:
            raise BadInput("sending.too_large", most=MOST_COPIED // 2**20)
        await context.console.record_read(context, "sending.title", f"{message.topic} {source}")
        draft = _copied(topic, message)
    return View("sending.html", draft, title=topic)


def _copied(topic: str, message: ReceivedMessage) -> Draft:
    properties = "\n".join(f"{name}={value}" for name, value in message.user_properties.items())
    try:
        body, encoding = message.body.decode(), "text"
    except UnicodeDecodeError:
        body, encoding = base64.b64encode(message.body).decode(), "base64"
    return Draft(topic, body, encoding, message.keys or "", message.tags or "", properties)


@attrs.frozen
class SendData:
    """Preview of sending the form: the message to be stored."""

    topic: str
    queue: str  # broker:id; empty for any
    keys: str
    tags: str
    delay_ms: int | None
    properties: Mapping[str, str]
    body_bytes: Long


async def preview_send(context: RequestContext, form: Form) -> Preview:
    """Return the message that would be sent; pages send without a question."""
    message, queue = await _message(context, form)
    data = SendData(
        message.topic,
        f"{queue.broker_name}:{queue.queue_id}" if queue is not None else "",
        form.get("keys", "").strip(),
        message.tags or "",
        message.delay_ms,
        {**message.properties, **message.system_properties},
        Long(len(message.body)),
    )
    return Preview("sending.html", data, "", message.topic)


async def _message(context: RequestContext, form: Form) -> tuple[Message, MessageQueue | None]:
    """Return the message of a form, and the queue it is for; None for any."""
    topic = context.names["topic"]
    check_topic(topic)
    await _check_target(context, topic)
    own, system = split_properties(_properties(form.get("properties", "")))
    message = Message(
        topic,
        _body(form.get("body", ""), form.get("encoding", "text")),
        form.get("tags", "").strip() or None,
        form.get("keys", "").strip() or None,
        properties=own,
        delay_ms=_delay_ms(form.get("delay", "")),
        system_properties=system,
    )
    return message, await _queue(context, topic, form.get("queue", ""))


async def send(context: RequestContext, form: Form) -> Outcome:
    """Send the message of the form."""
    message, queue = await _message(context, form)
    topic = message.topic
    sent = await _sent(context, message, queue)
    place = f"{sent.queue.broker_name}:{sent.queue.queue_id} @{sent.queue_offset}"
    fields = {"id": sent.message_id, "place": place}
    data = {"message_id": sent.message_id, "offset_id": sent.offset_id, "queue_offset": Long(sent.queue_offset)}
    if message.delay_ms is not None:
        return Outcome("sending.sent_later", fields, f"/topics/{topic}", data=data)
    return Outcome("sending.sent", fields, f"/messages/{sent.message_id}", {"topic": topic}, data=data)


@attrs.frozen
class AgainData:
    """Preview of sending a message again."""

    topic: str  # that it is sent to
    group: str  # the only group that receives it; empty for all groups of the topic
    id: str
    keys: str
    body_bytes: Long


async def preview_again(context: RequestContext, form: Form) -> Preview:
    """Return where the message would be sent."""
    message = await messages.whole(context.cluster, await _of_form(context, form))
    group = form.get("group", "").strip()
    target = _again(message, group).topic
    await _check_target(context, target)
    data = AgainData(target, group, message.message_id, message.keys or "", Long(len(message.body)))
    return Preview("sending_again.html", data, "", message.message_id, f"to {target}")


async def send_again(context: RequestContext, form: Form) -> Outcome:
    """Send a copy of the message to its topic, or to the retry topic of one group."""
    message = await messages.whole(context.cluster, await _of_form(context, form))
    copy = _again(message, form.get("group", "").strip())
    await _check_target(context, copy.topic)
    sent = await _sent(context, copy)
    fields = {"topic": copy.topic, "id": sent.message_id}
    return Outcome(
        "sending.sent_again",
        fields,
        f"/messages/{context.names['id']}",
        {"topic": message.topic, "at": form.get("at", "")},
    )


async def _check_target(context: RequestContext, topic: str) -> None:
    """Raise BadInput for a topic that servers or clients write to themselves, such as the topic of message traces."""
    if kind_by_name(topic, await own_topics(context.cluster)) == "system":
        raise BadInput("sending.system_topic", topic=topic)


def _again(message: ReceivedMessage, group: str) -> Message:
    """Return the copy to send: to *group* only, which receives it as a message of its original topic, or to all."""
    if not group:
        return Message.from_received(message)
    copy = again(message, retry_topic(group))
    copy.system_properties.setdefault(props.RETRY_TOPIC, message.topic)
    return copy


@attrs.frozen
class DirectData:
    """Preview of a delivery to one member."""

    group: str
    client: str
    id: str


async def preview_direct(context: RequestContext, form: Form) -> Preview:
    """Return which member would get the message."""
    data = DirectData(_needed(form, "group"), form.get("client", "").strip(), context.names["id"])
    return Preview("sending_direct.html", data, "", data.id, f"to {data.group} {data.client}".strip())


async def consume_directly(context: RequestContext, form: Form) -> Outcome:
    """Have one member consume the message now, and show the result."""
    message = await _of_form(context, form)
    group, client = _needed(form, "group"), form.get("client", "").strip()
    if message.sys_flag & INNER_BATCH:
        raise BadInput("sending.in_batch")
    address = (await context.cluster.masters()).get(message.broker_name) or message.store_host
    if not client:
        members = await context.cluster.admin.members(address, group)
        if not members:
            raise BadInput("sending.no_member", group=group)
        client = members[0]
    result = await context.cluster.admin.consume_directly(address, group, client, message.offset_id)
    fields = {"client": client, "result": result.result, "took": result.spent_ms, "remark": result.remark}
    to, query = f"/messages/{context.names['id']}", {"topic": message.topic, "at": form.get("at", "")}
    return Outcome("sending.consumed", fields, to, query, failed=not result.succeeded, data=fields)


async def _of_form(context: RequestContext, form: Form) -> ReceivedMessage:
    return await _one(
        context, context.names["id"], form.get("topic", ""), form.get("number", "0"), form.get("at", "").strip()
    )


async def _one(
    context: RequestContext, message_id: str, topic: str, number: str = "0", at: str = "", body_bytes: int = HEAD_BYTES
) -> ReceivedMessage:
    asking = Asking(context.console.world.clock)
    found = await messages.by_id(context.cluster, asking, topic, message_id, at, body_bytes)
    if not number.isdecimal() or int(number) >= len(found):
        raise BadInput("common.not_a_number", name="number", value=number[:20], least=0, most=len(found) - 1)
    return found[int(number)]


async def _sent(context: RequestContext, message: Message, queue: MessageQueue | None = None) -> SendResult:
    """Send a message. Raises NotAccepted: brokers take none now; GantryError: another reason."""
    try:
        return await _producer(context).send(message, queue=queue)
    except GantryError as problem:
        raise await cause_of(context, message.topic, problem) from problem


def _producer(context: RequestContext) -> Producer:
    return context.cluster.client.producer(PRODUCER_GROUP)


async def _queue(context: RequestContext, topic: str, text: str) -> MessageQueue | None:
    """Return the queue named broker:id, or None for any."""
    if not text.strip():
        return None
    queues: Sequence[MessageQueue] = await context.cluster.reader.queues(topic)
    named = {f"{each.broker_name}:{each.queue_id}": each for each in queues}
    if text.strip() not in named:
        raise BadInput("sending.no_queue", queue=text[:80], queues=", ".join(list(named)[:20]))
    return named[text.strip()]


def _body(text: str, encoding: str) -> bytes:
    try:
        if encoding == "base64":
            return base64.b64decode("".join(text.split()), validate=True)
        if encoding == "hex":
            return bytes.fromhex(text)
    except (ValueError, binascii.Error):
        raise BadInput("sending.bad_body", encoding=encoding) from None
    if encoding != "text":
        raise BadInput("common.not_a_choice", name="encoding", value=encoding[:20], choices=", ".join(_ENCODINGS))
    return text.replace("\r\n", "\n").encode("utf-8", "replace")


def _properties(text: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for line in filter(str.strip, text.splitlines()):
        name, mark, value = line.partition("=")
        if not mark or not name.strip() or not value:
            raise BadInput("sending.bad_property", line=line[:80])
        found[name.strip()] = value
    return found


def _delay_ms(text: str) -> int | None:
    if not text.strip():
        return None
    if not (text.strip().isascii() and text.strip().isdecimal()):
        raise BadInput("common.not_a_number", name="delay", value=text[:20], least=0, most=10**9)
    return int(text.strip()[:10]) * 1000


def _needed(form: Form, name: str) -> str:
    value = form.get(name, "").strip()
    if not value:
        raise BadInput("sending.missing", name=name)
    return value


SECTION = Section(
    pages=(Page("/topics/{topic}/send", "sending.title", Role.OPERATOR, form, refresh_s=None, nav="topics"),),
    actions=(
        Action(
            "/topics/{topic}/send",
            "sending.send",
            Role.OPERATOR,
            send,
            preview_send,
            Confirm.NONE,
            _FIELDS,
            _MOST_BYTES,
        ),
        Action(
            "/messages/{id}/again", "sending.again", Role.OPERATOR, send_again, preview_again, fields=(*_ONE, "group")
        ),
        Action(
            "/messages/{id}/direct",
            "sending.direct",
            Role.OPERATOR,
            consume_directly,
            preview_direct,
            fields=(*_ONE, "group", "client"),
        ),
    ),
)
