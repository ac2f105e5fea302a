"""Undelivered messages: delayed and timed messages, and undecided transactions."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import quote
from typing import Final

import attrs

from gantrymq_admin.asking import Asking
from gantrymq_admin.transactions import StoredMessage, resume_check, show_transaction
from gantrymq_console.access.users import Role
from gantrymq_console.data import messages, waiting
from gantrymq_console.data.cluster import readers_of
from gantrymq_console.data.waiting import Delayed, HalfList
from gantrymq_console.pages.sending import PRODUCER_GROUP
from gantrymq_console.web.context import RequestContext
from gantrymq_console.web.pages import Action, BadInput, Form, NotFound, Outcome, Page, Preview, Section, View

SHOWN: Final = ("undecided", "given_up")


@attrs.frozen
class DelayedPage:
    """Messages that wait for their delivery time."""

    broker: str
    source: str
    topic: str
    found: Delayed
    may_recall: bool


async def delayed(context: RequestContext) -> View:
    """Show the pending messages, the soonest first."""
    asking = Asking(context.console.world.clock)
    broker, source, topic = context.text("broker"), context.text("source"), context.text("topic")
    found = await waiting.delayed_of(
        context.cluster,
        asking,
        broker=broker,
        source=source,
        place=context.text("place"),
        topic=topic,
        most=context.rows,
    )
    data = DelayedPage(broker, source, topic, found, context.may(Role.OPERATOR))
    command = f"message pending --max {context.rows}" + (f" -t {quote(topic)}" if topic else "")
    if broker or source or context.text("place"):  # the command lists all kinds of all brokers from the beginning
        command = ""
    return View("delayed.html", data, command, asking.missing)


@attrs.frozen
class RecallData:
    """Preview of a recall."""

    topic: str
    keys: str
    id: str
    due_ms: int
    handle: str


async def preview_recall(context: RequestContext, form: Form) -> Preview:
    """Return the message that would not be delivered."""
    data = await _recall(context, form)
    return Preview("delayed_recall.html", data, f"message recall {data.handle} -t {data.topic}", data.id)


async def recall(context: RequestContext, form: Form) -> Outcome:
    """Recall a timed message before its delivery."""
    data = await _recall(context, form)
    await context.cluster.client.producer(PRODUCER_GROUP).recall(data.topic, data.handle)
    return Outcome("waiting.recalled", {"id": data.id}, "/delayed")


async def _recall(context: RequestContext, form: Form) -> RecallData:
    offset_id, broker = form.get("id", ""), form.get("broker", "")
    message = await messages.by_offset_id(context.cluster, offset_id)
    if message is None:  # a recall is sent to the broker by its name
        moved = await messages.elsewhere(context.cluster, Asking(context.console.world.clock), offset_id)
        message = moved[0] if len(moved) == 1 else None
    if message is None:
        raise NotFound("waiting.gone")
    topic = message.properties.get("REAL_TOPIC", message.topic)
    handle = waiting.recall_handle(topic, broker or message.broker_name, message.properties)
    if handle is None:
        raise BadInput("waiting.not_timed")
    due_ms = int(message.properties["TIMER_OUT_MS"])
    return RecallData(topic, message.keys or "", message.message_id, due_ms, handle)


@attrs.frozen
class TransactionsPage:
    """Half messages that are undecided or given up."""

    broker: str
    topic: str
    shown: str
    found: HalfList
    may_resume: bool


async def transactions(context: RequestContext) -> View:
    """Show undecided or given-up transactions, the oldest first."""
    asking = Asking(context.console.world.clock)
    broker, topic, shown = context.text("broker"), context.text("topic"), context.choice("shown", SHOWN)
    found = await waiting.transactions_of(
        context.cluster,
        asking,
        broker=broker,
        start=context.start,
        given_up=shown == "given_up",
        topic=topic,
        most=context.rows,
    )
    data = TransactionsPage(broker, topic, shown, found, context.may(Role.OPERATOR))
    command = (
        "transactions list" + (" --given-up" if shown == "given_up" else "") + (f" -t {quote(topic)}" if topic else "")
    )
    if broker or context.start:
        command = ""
    return View("transactions.html", data, command, asking.missing)


@attrs.frozen
class TransactionPage:
    """All messages of a transaction, at all brokers."""

    unique_id: str
    half_messages: Sequence[waiting.Half]
    given_up: Sequence[waiting.Half]
    committed: Sequence[StoredMessage]
    may_resume: bool


async def transaction(context: RequestContext) -> View:
    """Show all messages of one transaction."""
    unique_id = context.names["id"]
    asking = Asking(context.console.world.clock)
    readers = await readers_of(context.cluster, asking)
    answers = await asking.all(
        {name: show_transaction(context.cluster.admin, address, unique_id) for name, address in readers.items()}
    )
    data = TransactionPage(
        unique_id,
        [waiting.half_of(name, each, None) for name, found in answers.items() for each in found.half_messages],
        [waiting.half_of(name, each, None) for name, found in answers.items() for each in found.given_up],
        [each for found in answers.values() for each in found.committed],
        context.may(Role.OPERATOR),
    )
    if not asking.missing and not (data.half_messages or data.given_up or data.committed):
        raise NotFound("waiting.no_transaction", id=unique_id)
    return View("transaction.html", data, f"transactions show {unique_id}", asking.missing, title=unique_id)


async def preview_resume(context: RequestContext, form: Form) -> Preview:
    """Return a preview of resuming the checks."""
    offset_id = form.get("id", "")
    if await messages.by_offset_id(context.cluster, offset_id) is None:
        raise NotFound("waiting.gone")
    return Preview("transaction_resume.html", {"id": offset_id}, f"transactions resume {offset_id}", offset_id)


async def resume(context: RequestContext, form: Form) -> Outcome:
    """Resume the checks of a given-up transaction."""
    offset_id = form.get("id", "")
    if await messages.by_offset_id(context.cluster, offset_id) is None:  # the id names the broker to ask
        raise NotFound("waiting.gone")
    await resume_check(context.cluster.admin, offset_id)
    return Outcome("waiting.resumed", {}, "/transactions")


SECTION = Section(
    pages=(
        Page("/delayed", "waiting.delayed", Role.VIEWER, delayed, nav="delayed"),
        Page("/transactions", "waiting.transactions", Role.VIEWER, transactions, nav="transactions"),
        Page("/transactions/{id}", "waiting.transaction", Role.VIEWER, transaction, nav="transactions"),
    ),
    actions=(
        Action("/delayed/recall", "waiting.recall", Role.OPERATOR, recall, preview_recall, fields=("id", "broker")),
        Action("/transactions/resume", "waiting.resume", Role.OPERATOR, resume, preview_resume, fields=("id",)),
    ),
)
