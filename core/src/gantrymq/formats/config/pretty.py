"""Config text formatted like that of Java brokers: fastjson's "pretty" format.

    {                                  each member on a separate line, one tab per level (> here),
    >"groupTopicMap":{                 no space after the colon, no newline at the end
    >>"CG":["TopicA","TopicB"]         a list stays on one line
    >},
    >"offsetTable":{
    >>"TopicA@CG":{0:250,1:250         integer keys: unquoted, on one line, closing brace on the next
    >>}
    >},
    >"empty":{}
    }

RocketMQ 5.5.0 (fastjson2) puts integer keys on separate lines, like string keys. Readers accept both formats.

Source: com.alibaba:fastjson 1.2.83 MapSerializer.java, JavaBeanSerializer.java, CollectionCodec.java; apache/rocketmq
remoting/.../protocol/RemotingSerializable.java (toJson with prettyFormat).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from gantrymq.loose_json import dumps


class FormattedText(str):
    """Formatted text of a value at its indentation level, written unchanged."""

    __slots__ = ()


def pretty(value: Any, *, integer_lines: bool = False) -> str:
    """Return *value* as config text. Members keep their order; those that are None are omitted.

    Args:
        value: as for `loose_json.dumps`.
        integer_lines: put entries with integer keys on separate lines, as 5.5.0 does.
    Raises:
        TypeError: a value or key has a type without a JSON form.
    """
    out: list[str] = []
    _write(value, "\n", integer_lines, out)
    return "".join(out)


def pretty_member(name: str, value: Any, *, level: int) -> str:
    """Format one member of an object like `pretty`, including the preceding line break.

    Args:
        level: tabs before the name.
    """
    return "".join(["\n" + "\t" * level, dumps(name).decode(), ":", format_value(value, level=level)])


def format_value(value: Any, *, level: int) -> FormattedText:
    """Format the value of a member like `pretty`; the member's name is indented by *level* tabs."""
    out: list[str] = []
    _write(value, "\n" + "\t" * level, False, out)
    return FormattedText("".join(out))


def _write(value: Any, line: str, integer_lines: bool, out: list[str]) -> None:
    """Append *value*; *line* is the line break with the indentation of the current level."""
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
    """Return *text* quoted. Cached, as the topics share the same few member names."""
    return dumps(text).decode()
