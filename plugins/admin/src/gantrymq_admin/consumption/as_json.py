"""The result of `consumers_of` as JSON members: snake_case names, words for enums, times in ms."""

from __future__ import annotations

import enum
from typing import Any

import attrs

from gantrymq.plugin.model import MessageQueue
from gantrymq_admin.consumption.gather import Consumption
from gantrymq_admin.consumption.verdicts import Verdict

__all__ = ["as_json"]


def as_json(found: Consumption) -> dict[str, Any]:
    """Return the members of a consumption."""
    return {
        "kind": found.kind.value,
        "message": None if found.message is None else _members(found.message),
        "groups": [_verdict(each) for each in found.verdicts],
        "group_count": found.group_count,
        "others": list(found.others),
        "traced": found.traced,
        "trace_topics": list(found.trace_topics),
        "transaction": found.transaction,
        "due_ms": found.due_ms,
        "light": [{**_members(each), "passed": each.passed} for each in found.light],
        "missing": [_members(each) for each in found.missing],
    }


def _verdict(found: Verdict) -> dict[str, Any]:
    return {
        "group": found.group,
        "reason": found.reason.value,
        "certainty": found.certainty.value,
        "lacking": sorted(each.value for each in found.lacking),
        "copy": None if found.copy is None else _members(found.copy),
        "attempt": None if found.attempt is None else _members(found.attempt),
        **{name: value for name, value in _members(found.facts).items() if name != "group"},
    }


def _members(record: attrs.AttrsInstance) -> dict[str, Any]:
    return {field.name: _value(getattr(record, field.name)) for field in attrs.fields(type(record))}


def _value(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, MessageQueue):
        return {"topic": value.topic, "broker": value.broker_name, "queue": value.queue_id}
    if isinstance(value, frozenset):
        return sorted(each.value for each in value)
    if isinstance(value, tuple):
        return [_value(each) for each in value]
    return _members(value) if attrs.has(type(value)) else value
