"""Attributes of topics and groups: the known ones, and changes by requests.

Source: apache/rocketmq common/.../attribute/AttributeUtil.java, common/.../TopicAttributes.java,
common/.../SubscriptionGroupAttributes.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.errors import RequestRefused

Known = Mapping[str, tuple[str, ...] | range | None]  # allowed values by name; () for any text, None for milliseconds

TOPIC_ATTRIBUTES: Final[Known] = {
    "queue.type": ("SimpleCQ", "BatchCQ"),
    "cleanup.policy": ("DELETE", "COMPACTION"),
    "message.type": ("UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "PRIORITY", "MIXED", "LITE"),
    "reserve.time": None,
    "lite.topic.expiration": range(-1, 30 * 24 * 60 + 1),  # minutes; -1: never
}
_FLAG: Final = ("true", "false")
_LONG_END: Final = 2**63
GROUP_ATTRIBUTES: Final[Known] = {
    "filter": (),  # GantryMQ's own
    "priority.factor": range(101),  # percentage of pops of a PRIORITY topic that read high priorities first
    "lite.bind.topic": (),
    "lite.sub.model": ("Shared", "Exclusive"),
    "lite.sub.reset.offset.exclusive": _FLAG,
    "lite.sub.reset.offset.unsubscribe": _FLAG,
    "lite.sub.client.quota": range(-1, _LONG_END),  # -1: no limit
    "lite.sub.client.max.event.cnt": range(10, _LONG_END),
}
_FIXED: Final = {"queue.type": "SimpleCQ", "cleanup.policy": "DELETE"}  # fixed at creation, with their defaults
_NOT_BUILT: Final = {("cleanup.policy", "COMPACTION")}


def changed_attributes(
    owner: str, known: Known, kept: Mapping[str, str] | None, changes: Mapping[str, str]
) -> dict[str, str]:
    """Return *kept* with *changes* applied.

    Args:
        owner: name for errors, such as ``topic T``.
        known: the allowed attributes with their values.
        kept: the current attributes; None for a new topic or group.
        changes: ``+name`` sets an attribute, ``-name`` deletes it.

    Raises:
        RequestRefused: an attribute or value is unknown, given twice, to be deleted but not set, fixed at creation, or
            not implemented.
    """
    result = dict(kept or {})
    named = set()
    for marked, value in changes.items():
        sign, name = marked[:1], marked[1:]
        if sign not in ("+", "-") or (name not in known and not (sign == "-" and name in result)):
            names = ", ".join(f"+{each}" for each in sorted(known))
            raise RequestRefused(1, f"{owner}: attribute {marked[:200]!r} is not one of {names} (or - to delete)")
        if name in named:
            raise RequestRefused(1, f"{owner}: attribute {name} is named twice; set it or delete it")
        named.add(name)
        if name in _FIXED and kept is not None:
            had = kept.get(name, _FIXED[name])
            if (value if sign == "+" else _FIXED[name]) != had:
                raise RequestRefused(
                    1, f"{owner}: attribute {name} is fixed when the topic is created, and it was made with {had}"
                )
        if sign == "+":
            _check_value(owner, name, value, known[name])
            result[name] = value
        elif kept is None:
            raise RequestRefused(1, f"{owner} is new, so attribute {name} cannot be deleted; leave {marked} out")
        elif name not in kept:
            raise RequestRefused(1, f"{owner} has no attribute {name} to delete; leave {marked} out")
        else:
            del result[name]
    return result


def _check_value(owner: str, name: str, value: str, values: tuple[str, ...] | range | None) -> None:
    if isinstance(values, range):
        digits = value.removeprefix("-")
        fits = digits.isascii() and digits.isdecimal() and len(digits) < 19 and int(value) in values
        expected = f"a whole number from {values[0]} to {values[-1]}"
    elif values is None:
        fits = value == "-1" or (value.isascii() and value.isdecimal() and len(value) < 19)
        expected = "a whole number of milliseconds, or -1 for no limit"
    else:
        fits, expected = not values or value in values, f"one of {', '.join(values)}"
    if not fits:
        raise RequestRefused(1, f"{owner}: attribute {name}={value[:200]} is not {expected}")
    if (name, value) in _NOT_BUILT:
        raise RequestRefused(1, f"{owner}: attribute {name}={value} is not implemented in this version")
