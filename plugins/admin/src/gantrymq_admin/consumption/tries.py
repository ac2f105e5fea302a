"""The tries in the message trace, by group. No I/O.

A delivery leaves a SubBefore when it begins and a SubAfter when it ends, with the same request id. Each may be lost,
and a SubAfter of clients before 4.7 has no group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import attrs

from gantrymq.client import ReceivedMessage, decode_trace
from gantrymq.client.admin import AnswerUnreadable
from gantrymq.plugin.client import SubAfter, SubBefore, TraceRecord
from gantrymq.plugin.model import parse_address
from gantrymq_admin.consumption.facts import Try

__all__ = ["Traced", "records_of", "tries_by_group"]


class Traced(NamedTuple):
    """A record of the trace, and the address of the client that wrote it."""

    record: TraceRecord
    born_host: str


def records_of(traces: Iterable[ReceivedMessage], message_id: str) -> tuple[list[Traced], int]:
    """Return the records of a message, and the number of messages that could not be decoded."""
    found: list[Traced] = []
    unreadable = 0
    for trace in traces:
        if trace.is_shortened:
            unreadable += 1
            continue
        try:
            records = decode_trace(trace.body)
        except AnswerUnreadable:
            unreadable += 1
            continue
        found += [Traced(each, trace.born_host) for each in records if each.message_id == message_id]
    return found, unreadable


def tries_by_group(records: Iterable[Traced]) -> dict[str, tuple[Try, ...]]:
    """Return the tries to consume a message, in order."""
    before: dict[str, tuple[SubBefore, str]] = {}
    after: dict[str, tuple[SubAfter, str]] = {}
    for record, born_host in records:
        if isinstance(record, SubBefore):
            before[record.request_id] = record, born_host
        elif isinstance(record, SubAfter):
            after[record.request_id] = record, born_host
    found: dict[str, list[Try]] = {}
    for request_id in before | after:
        begun, begun_at = before.get(request_id, (None, ""))
        ended, ended_at = after.get(request_id, (None, ""))
        group = (begun.group if begun is not None else "") or (ended.group if ended is not None else "")
        if group:
            found.setdefault(group, []).append(_try(begun, ended, _host(ended_at or begun_at)))
    return {group: tuple(sorted(tries, key=_time)) for group, tries in found.items()}


def _try(begun: SubBefore | None, ended: SubAfter | None, client_host: str) -> Try:
    one = Try(client_host, None)
    if begun is not None:
        one = attrs.evolve(one, began_ms=begun.time_ms, failures=begun.retry_times)
    if ended is not None:
        one = attrs.evolve(one, ended_ms=ended.time_ms or None, success=ended.success, took_ms=ended.cost_ms)
    return one


def _time(one: Try) -> int:
    return one.ended_ms or one.began_ms or 0


def _host(address: str) -> str:
    """Return the host of ``host:port``: the port belongs to the connection that carried the trace."""
    try:
        return parse_address(address)[0]
    except ValueError:
        return address
