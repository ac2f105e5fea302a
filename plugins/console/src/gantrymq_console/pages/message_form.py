"""The form that selects messages of a topic, in an address or a POST, and the file with its result."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from shlex import quote
from typing import Final

import attrs
from starlette.responses import Response, StreamingResponse

from gantrymq.plugin.model import ALL, SQL92, TAG
from gantrymq_console.data.listing import Listing, Wanted
from gantrymq_console.web.context import RequestContext, moment_of
from gantrymq_console.web.pages import BadInput

_TIMES: Final = ("from", "to", "before")
FIELDS: Final = ("key", "tag", "sql", "text", "queue", "offset", "skip", *_TIMES, *(f"{each}_utc" for each in _TIMES))
"""Names of the form."""

LAST: Final = ("", "1", "24", "168")  # hours before now, in place of a time "from"
_MOST_FILES: Final = 4  # made at the same time
_STUCK_S: Final = 900.0  # after which a file does not count any more: its reader may have stopped reading


@attrs.frozen
class Asked:
    """The form of the page."""

    key: str
    tag: str
    sql: str
    text: str
    from_ms: int | None
    to_ms: int | None
    queue: str  # broker:id
    offset: int | str | None  # a text if it is no number


def wanted_by(topic: str, given: Mapping[str, str]) -> tuple[Asked, Wanted]:
    """Return the fields of a form, and which messages they select. Raises BadInput.

    Besides the fields, *given* may have the place where a page ended: ``before``, a time, and ``skip``, the number of
    messages of that time that were shown.
    """
    fields = {name: given.get(name, "").strip() for name in ("key", "tag", "sql", "text", "queue", "offset")}
    if fields["tag"] and fields["sql"]:
        raise BadInput("messages.tag_or_sql")
    if fields["key"] and any(fields[name] for name in fields if name != "key"):
        raise BadInput("messages.key_alone")
    begin_ms, end_ms = moment_of(given, "from"), moment_of(given, "to")
    before_ms = moment_of(given, "before")
    last_ms = end_ms if before_ms is None else before_ms if end_ms is None else min(before_ms, end_ms)
    queue, offset = _queue(fields["queue"]), _number("offset", fields["offset"])
    skip = _number("skip", given.get("skip", "").strip()) or 0
    if offset is not None and queue is None:
        raise BadInput("messages.offset_needs_queue")
    asked = Asked(
        fields["key"], fields["tag"], fields["sql"], fields["text"], begin_ms, end_ms, fields["queue"], offset
    )
    kind = SQL92 if asked.sql else TAG
    return asked, Wanted(topic, begin_ms or 0, last_ms, skip, asked.sql or asked.tag or ALL, kind, queue, offset)


def query_of(context: RequestContext) -> Mapping[str, str]:
    """Return the parameters of the address, with the time that ``last`` means as "from" unless that is given.

    Raises BadInput: ``last`` is none of `LAST`.
    """
    given, hours = context.request.query_params, context.choice("last", LAST)
    if not hours or moment_of(given, "from") is not None:
        return given
    return {**given, "from": str(context.now_ms() - int(hours) * 3_600_000), "from_utc": ""}


def fixed_times(context: RequestContext, wanted: Wanted) -> Mapping[str, str | int | None]:
    """Return the parameters that select the messages of now, whenever the address is opened."""
    end_ms = context.now_ms() if wanted.end_ms is None else wanted.end_ms
    return {"last": None, "from": wanted.begin_ms or None, "from_utc": None, "to": end_ms, "to_utc": None}


def as_typed(given: Mapping[str, str]) -> Asked:
    """Return the fields of a form that cannot be used, to show it again."""
    key, tag, sql, text, queue, offset = (
        given.get(name, "").strip() for name in ("key", "tag", "sql", "text", "queue", "offset")
    )
    return Asked(key, tag, sql, text, _moment(given, "from"), _moment(given, "to"), queue, offset or None)


def _moment(given: Mapping[str, str], name: str) -> int | None:
    try:
        return moment_of(given, name)
    except BadInput:
        return None


def _queue(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    broker, mark, number = text.rpartition(":")
    if not mark or not (number.isascii() and number.isdecimal()) or len(number) > 9:
        raise BadInput("messages.bad_queue", queue=text[:80])
    return broker, int(number)


def _number(name: str, text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and int(text[:20]) < 2**63):
        raise BadInput("common.not_a_number", name=name, value=text[:40], least=0, most=2**63 - 1)
    return int(text)


def command_of(asked: Asked, wanted: Wanted, found: Listing, rows: int) -> str:
    """Return the command that shows the messages of this page; none if no command selects by text.

    Args:
        asked: the form.
        wanted: its selection, from the place where the page before ended.
        found: the page.
        rows: of a whole page.
    """
    topic = quote(wanted.topic)
    if asked.text:
        return ""
    if asked.key:
        # Brokers return their newest 64; those stored before the next page's first one are left out here.
        begin_ms = found.next_ms + 1 if found.next_ms is not None else wanted.begin_ms
        begin = f" --begin {begin_ms}" if begin_ms else ""
        end = f" --end {wanted.end_ms}" if wanted.end_ms is not None else ""
        return f"message query -t {topic} --key {quote(asked.key)}{begin}{end}"
    options = f" --queue {quote(asked.queue)}" if asked.queue else ""
    for name, value in (
        ("to-offset", wanted.offset),
        ("from-time", wanted.begin_ms or None),
        ("to-time", wanted.end_ms),
        ("skip", wanted.skip or None),
    ):
        options += f" --{name} {value}" if value is not None else ""
    return f"message pull -t {topic} --newest --max {len(found.rows) or rows}{options}{filter_options(asked)}"


def filter_options(asked: Asked) -> str:
    """Return the options of a command for the tag or SQL expression."""
    if asked.sql:
        return f" -e {quote(asked.sql)} --expression-type SQL92"
    return f" -e {quote(asked.tag)}" if asked.tag else ""


def streamed(context: RequestContext, content: AsyncIterator[bytes], form: str) -> Response:
    """Return a file for the browser. Raises BadInput: too many files are being made."""
    clock = context.console.world.clock
    begun: list[float] = context.cluster.kept.setdefault("files", [])
    begun[:] = [each for each in begun if clock.monotonic() - each < _STUCK_S]
    if len(begun) >= _MOST_FILES:
        raise BadInput("messages.too_many_files", most=_MOST_FILES)

    async def counted() -> AsyncIterator[bytes]:
        now = clock.monotonic()
        begun.append(now)
        try:
            async for part in content:
                yield part
        finally:
            if now in begun:
                begun.remove(now)

    name = "".join(each for each in context.names["topic"] if each.isascii() and (each.isalnum() or each in "-_"))
    headers = {"Content-Disposition": f'attachment; filename="{name[:64]}.{form}"'}
    return StreamingResponse(counted(), media_type="application/octet-stream", headers=headers)
