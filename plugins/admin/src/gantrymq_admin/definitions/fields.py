"""Members of topics and groups in a document of definitions: names, defaults, checks, and their plain values.

A definition is a dict with all members of its kind, as `TopicConfig` and `GroupConfig` name them. The defaults belong
to the format of the document: if a default of RocketMQ changes, a document keeps its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import attrs

from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.plugin import names
from gantrymq.plugin.loose_json import COUNT, COUNT64, INT32
from gantrymq.plugin.model import GroupConfig, TopicConfig

Values = Mapping[str, Any]
"""All members of one definition."""

_REQUIRED: Final[Any] = object()
UNREADABLE: Final = "unreadable_topics"


@attrs.frozen(eq=False)
class Field:
    """One member of a definition."""

    name: str
    expected: str  # completes the sentence "...; expected ..."
    accepts: Callable[[Any], bool]
    default: Any = _REQUIRED

    @property
    def required(self) -> bool:
        """Whether a document must have the member."""
        return self.default is _REQUIRED


@attrs.frozen(eq=False)
class Kind:
    """Topics or groups."""

    word: str  # in sentences
    section: str  # member of the document
    fields: tuple[Field, ...]
    config: Callable[..., Any]
    check_name: Callable[[str], None]
    beside: tuple[str, ...] = ()  # members that brokers keep beside the configuration

    def values(self, config: TopicConfig | GroupConfig, **beside: Any) -> Values:
        """Return the members of a configuration that a broker returned; *beside* has those that it keeps elsewhere."""
        return self.normal(
            {
                field.name: beside.get(field.name, field.default)
                if field.name in self.beside
                else getattr(config, field.name)
                for field in self.fields
            }
        )

    def normal(self, values: Values) -> Values:
        """Return the given members in the form in which equal ones are equal."""
        return {name: _sorted(value) for name, value in values.items()}

    def make(self, name: str, values: Values) -> Any:
        """Return the configuration for a broker."""
        own = {member: value for member, value in values.items() if member not in self.beside}
        return self.config(name, **{member: None if value == [] else value for member, value in own.items()})

    def differing(self, before: Values, after: Values) -> tuple[str, ...]:
        """Return the names of the members that differ, in their order."""
        return tuple(field.name for field in self.fields if before[field.name] != after[field.name])

    def shown(self, values: Values) -> dict[str, Any]:
        """Return the members without those that have their default."""
        return {
            field.name: values[field.name]
            for field in self.fields
            if field.required or values[field.name] != field.default
        }


def _sorted(value: Any) -> Any:
    """Sort an object by names, and a list by content: subscriptions are a set, and no set is an empty one."""
    if isinstance(value, list) or value is None:
        return sorted(map(_by_name, value or []), key=json.dumps)
    return _by_name(value)


def _by_name(value: Any) -> Any:
    return {name: _by_name(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _whole(name: str, bounds: tuple[int, int], default: Any = _REQUIRED) -> Field:
    def accepts(value: Any) -> bool:
        return type(value) is int and bounds[0] <= value <= bounds[1]

    return Field(name, f"a whole number from {bounds[0]} to {bounds[1]}", accepts, default)


def _flag(name: str, default: bool) -> Field:
    return Field(name, "true or false", lambda value: type(value) is bool, default)


def _choice(name: str, choices: tuple[str, ...]) -> Field:
    return Field(name, " or ".join(choices), lambda value: value in choices, choices[0])


def _attributes(expected: str, legal: Callable[[str, str], bool]) -> Field:
    def accepts(value: Any) -> bool:
        return isinstance(value, dict) and all(
            isinstance(text, str) and legal(key, text) for key, text in value.items()
        )

    return Field("attributes", expected, accepts, {})


def _as_rocketmq(name: str, member: str, kind: type, expected: str, default: Any) -> Field:
    """A member with RocketMQ's own structure, which `GroupConfig` checks."""

    def accepts(value: Any) -> bool:
        try:
            GroupConfig.from_json({member: value}, "G")
        except FormatError:
            return False
        return isinstance(value, kind)

    return Field(name, expected, accepts, default)


def _legal_key(key: str) -> bool:
    return bool(key) and not key.startswith(("+", "-")) and not set(key) & set(",= ")


TOPIC: Final = Kind(
    "topic",
    "topics",
    (
        _whole("read_queues", COUNT),
        _whole("write_queues", COUNT),
        _whole("perm", (0, 7), 6),
        _flag("order", False),
        _attributes(
            "an object of texts, names without a sign and values without a comma",
            lambda key, text: _legal_key(key) and "," not in text,
        ),
        _choice("filter_type", ("SINGLE_TAG", "MULTI_TAG")),
        _whole("sys_flag", COUNT, 0),
    ),
    TopicConfig,
    names.check_topic,
)

GROUP: Final = Kind(
    "group",
    "groups",
    (
        _flag("consume_enable", True),
        _flag("consume_from_min_enable", True),
        _flag("consume_broadcast_enable", True),
        _flag("consume_message_orderly", False),
        _whole("retry_queues", INT32, 1),
        _whole("retry_max_times", INT32, 16),
        _as_rocketmq(
            "retry_policy",
            "groupRetryPolicy",
            dict,
            "an object like RocketMQ's groupRetryPolicy, such as " + '{"type": "CUSTOMIZED"}',
            {"type": "CUSTOMIZED"},
        ),
        _whole("broker_id", COUNT64, 0),
        _whole("which_broker_when_slow", COUNT64, 1),
        _flag("notify_ids_changed", True),
        _whole("consume_timeout_minute", COUNT, 15),
        _as_rocketmq(
            "subscriptions",
            "subscriptionDataSet",
            list,
            "a list of objects with topic, expressionType, expression and version",
            [],
        ),
        _attributes("an object of texts, names without a sign", lambda key, text: _legal_key(key)),
        _whole("sys_flag", COUNT, 0),
        Field(UNREADABLE, "a list of names of topics, each once", lambda value: _are_topics(value), []),
    ),
    GroupConfig,
    names.check_group,
    (UNREADABLE,),
)

KINDS: Final = (TOPIC, GROUP)


def _are_topics(value: Any) -> bool:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return False
    return len(set(value)) == len(value) and not any(name_problem(TOPIC, each) for each in value)


def name_problem(kind: Kind, name: str) -> str | None:
    """Return why *name* is not legal, or None."""
    try:
        kind.check_name(name)
    except InvalidParameter as problem:
        return str(problem)
    return None
