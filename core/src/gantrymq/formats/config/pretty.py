"""Config text as Java brokers lay it out: fastjson's "pretty" form.

    {                                  each member on a line of its own, one tab a level (shown as > here),
    >"groupTopicMap":{                 no blank after the colon, no newline at the end
    >>"CG":["TopicA","TopicB"]         a list stays on one line
    >},
    >"offsetTable":{
    >>"TopicA@CG":{0:250,1:250         integer keys: without quotes, all on one line, the brace on its own
    >>}
    >},
    >"empty":{}
    }

RocketMQ 5.5.0 (fastjson2) gives integer keys a line each, like string keys; every reader takes both forms.

Source: com.alibaba:fastjson 1.2.83 MapSerializer.java, JavaBeanSerializer.java, CollectionCodec.java; apache/rocketmq
remoting/.../protocol/RemotingSerializable.java (toJson with prettyFormat).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gantrymq.loose_json import dumps


class FormattedText(str):
    """Text of a value that is laid out already, for the level it will stand on; written as it is."""

    __slots__ = ()


def pretty(value: Any, *, integer_lines: bool = False) -> str:
    """Return *value* as config text; members come in the order they have, those that are None are left out.

    Args:
        value: as for `loose_json.dumps`.
        integer_lines: give entries with integer keys a line each, as 5.5.0 does.
    Raises:
        TypeError: a type or key that has no JSON form.
    """
    out: list[str] = []
    _write(value, "\n", integer_lines, out)
    return "".join(out)


def pretty_member(name: str, value: Any, *, level: int) -> str:
    """One member of an object as `pretty` writes it, the line break before it included.

    Args:
        level: tabs before the name.
    """
    return "".join(["\n" + "\t" * level, dumps(name).decode(), ":", format_value(value, level=level)])


def format_value(value: Any, *, level: int) -> FormattedText:
    """A member's value as `pretty` writes it, for one whose name stands behind *level* tabs."""
    out: list[str] = []
    _write(value, "\n" + "\t" * level, False, out)
    return FormattedText("".join(out))


def _write(value: Any, line: str, integer_lines: bool, out: list[str]) -> None:
    """Append *value*; *line* is the line break with the indentation of the level it stands on."""
    if isinstance(value, FormattedText):
        out.append(value)
    elif isinstance(value, str):
        out.append(_quoted(value))
    elif type(value) is int:
        out.append(str(value))
    elif isinstance(value, Mapping):
        _write_members(value, line, integer_lines, out)
    elif isinstance(value, list | tuple):
        out.append("[")
        for number, item in enumerate(value):
            if number:
                out.append(",")
            _write(item, line, integer_lines, out)
        out.append("]")
    else:
        out.append(dumps(value).decode())


def _write_members(members: Mapping[Any, Any], line: str, integer_lines: bool, out: list[str]) -> None:
    present = [(key, value) for key, value in members.items() if value is not None]
    if not present:
        out.append("{}")
        return
    inner = line + "\t"
    lead = "{"
    for key, value in present:
        out.append(lead)
        if isinstance(key, str):
            out += (inner, _quoted(key), ":")
        elif isinstance(key, int) and not isinstance(key, bool):
            out += (inner if integer_lines else "", str(key), ":")
        else:
            raise TypeError(f"a config file has no key of type {type(key).__name__}")
        _write(value, inner, integer_lines, out)
        lead = ","
    out += (line, "}")


@lru_cache(maxsize=1024)
def _quoted(text: str) -> str:
    """Cached: the members of ten thousand topics have the same few names."""
    return dumps(text).decode()
