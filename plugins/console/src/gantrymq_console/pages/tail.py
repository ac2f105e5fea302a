"""The live tail of a topic: new messages as they arrive, read by a job of the console."""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.plugin.names import check_topic
from gantrymq.plugin.world import monotonic_ms
from gantrymq_console.access.users import Role
from gantrymq_console.data import tailing
from gantrymq_console.data.listing import Row
from gantrymq_console.data.tailing import Tail
from gantrymq_console.pages.message_form import Asked, filter_options, wanted_by
from gantrymq_console.web.jobs import Job
from gantrymq_console.web.pages import Action, Confirm, Form, NotFound, Outcome, Page, View
from gantrymq_console.web.values import Long
from gantrymq_console.web.visit import Visit

__all__ = ["ACTIONS", "PAGES"]

KIND: Final = "tail"


@attrs.frozen
class TailForm:
    """The form that starts a tail."""

    topic: str


@attrs.frozen
class TailPage:
    """A tail."""

    topic: str
    job: str
    running: bool
    failure: str
    unseen: bool
    begun_ms: int
    ended_ms: int | None
    arrived: Long
    shown: Long
    left_out: Long
    rows: tuple[Row, ...]
    asked: Asked


async def form(visit: Visit) -> View:
    """Show the form."""
    topic = visit.names["topic"]
    check_topic(topic)
    return View("tail_start.html", TailForm(topic), f"message tail -t {topic}", title=topic)


async def start(visit: Visit, given: Form) -> Outcome:
    """Start a tail."""
    topic = visit.names["topic"]
    check_topic(topic)
    asked, wanted = wanted_by(topic, {name: given.get(name, "") for name in ("tag", "sql")})
    await visit.cluster.admin.route(topic)
    tail = Tail(wanted, monotonic_ms(visit.console.world.clock))

    async def work(job: Job[tuple[Tail, Asked]]) -> None:
        await tailing.run(visit.cluster, tail, job)

    job = visit.console.jobs.start(KIND, visit.user.name, (tail, asked), work)
    return Outcome("messages.tail_started", {}, f"/topics/{topic}/tails/{job.id}", data={"job": job.id})


async def show(visit: Visit) -> View:
    """Show the newest messages of a tail."""
    topic, job = visit.names["topic"], _job(visit)
    tail, asked = job.progress
    tail.seen_ms = monotonic_ms(visit.console.world.clock)
    data = TailPage(
        topic,
        job.id,
        job.is_running,
        job.failure,
        tail.unseen,
        job.begun_ms,
        job.ended_ms,
        Long(tail.arrived),
        Long(tail.shown),
        Long(tail.left_out),
        tuple(tail.rows),
        asked,
    )
    command = f"message tail -t {topic}{filter_options(asked)}"
    return View("tail.html", data, command, tail.missing, title=topic)


async def stop(visit: Visit, given: Form) -> Outcome:
    """Stop a tail."""
    job = _job(visit)
    job.stop_asked = True
    return Outcome("messages.tail_stopped", {}, f"/topics/{visit.names['topic']}/tails/{job.id}")


def _job(visit: Visit) -> Job[Any]:
    job = visit.console.jobs.find(visit.names["job"], KIND, visit.user.name)
    if job is None or job.progress[0].wanted.topic != visit.names["topic"]:
        raise NotFound("messages.no_tail")
    return job


PAGES: Final = (
    Page("/topics/{topic}/tail", "messages.tail", Role.READER, form, refresh_s=None, nav="topics"),
    Page("/topics/{topic}/tails/{job}", "messages.tail", Role.READER, show, refresh_s=1.0, nav="topics"),
)
ACTIONS: Final = (
    Action("/topics/{topic}/tail", "messages.tail", Role.READER, start, confirm=Confirm.NONE, fields=("tag", "sql")),
    Action("/topics/{topic}/tails/{job}/stop", "messages.stop", Role.READER, stop, confirm=Confirm.NONE),
)
