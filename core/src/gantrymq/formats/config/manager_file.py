"""Saving and loading of one config file with a backup, so that one complete version exists at any time.

    save    <file> -> <file>.bak, sync folder; write <file>, sync
    load    <file>, or <file>.bak if <file> is missing, blank or not JSON; without both: new store

A Java broker removes a file that cannot be parsed, so that the next save does not replace the good ``.bak`` with it;
here it is renamed to ``<file>.broken``. A Java broker takes two blank files (empty, or all zeros, which a file system
may leave after a power failure) for a new store; here they are refused, as no broker saves a blank file.

The text is formatted like that of Java brokers, in fastjson's "pretty" format:

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

Sources: apache/rocketmq common/.../ConfigManager.java (load, loadBak, persist), MixAll.java (string2FileNotSafe),
remoting/.../protocol/RemotingSerializable.java (toJson with prettyFormat); com.alibaba:fastjson 1.2.83
MapSerializer.java, JavaBeanSerializer.java, CollectionCodec.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from gantrymq.errors import FormatError
from gantrymq.loose_json import dumps, loads
from gantrymq.world.files import FileReader, FileTree, make_durable_dirs


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


RESERVE: Final = "reserve"  # file in the same folder that reserves disk space for saves; not JSON


def backup_of(path: Path) -> Path:
    """Return the path of the backup, the text before the last save."""
    return path.with_name(path.name + ".bak")


def broken_of(path: Path) -> Path:
    """Return the path to which an unreadable file is renamed."""
    return path.with_name(path.name + ".broken")


def load(files: FileTree, path: Path, log: Callable[[str], Any] = lambda sentence: None) -> dict[Any, Any] | None:
    """Load the object in *path*, or in its backup if *path* is unusable. Return None if neither file exists.

    Args:
        log: called with a message if the backup is used, or contains more than *path*.
    Raises:
        FormatError: files exist, but none contains a JSON object; both stay unchanged.
        OSError: an existing file cannot be read.
    """
    members, problem = _read(files, path)
    if members:
        return members
    backup = backup_of(path)
    kept, problem_there = _read(files, backup)
    if members is not None:
        if kept:
            log(f"{path} holds an empty object and is read; {backup.name} holds more, put it in its place to use it")
        return members
    if kept is None and (problem or problem_there):
        raise FormatError(
            f"{path}: {problem or 'it is missing'}, and {backup.name}: {problem_there or 'it is missing'}; put a copy "
            f"in the place of {path.name}, or remove both files to start without what they held"
        )
    if problem is not None:
        files.rename(path, broken_of(path))
        files.sync_dir(path.parent)
        log(f"{path}: {problem}; kept as {broken_of(path).name}, reading {backup.name} instead")
    elif kept is not None:
        log(f"{path} is missing; read {backup.name} instead")
    return kept


def save(files: FileTree, path: Path, text: str, mode: int | None = None) -> None:
    """Write *text* to *path* durably, after renaming the old file to the backup. Creates the folder if missing.

    Args:
        mode: permission bits of the new file, as for `Files.replace`.
    Raises:
        OSError: the save failed; the backup contains the previous text.
    """
    make_durable_dirs(files, path.parent)
    there = files.stat(path)
    if there is not None and there.size > 0:
        files.rename(path, backup_of(path))
        files.sync_dir(path.parent)
    files.replace(path, text.encode(), mode)


def _read(files: FileReader, path: Path) -> tuple[dict[Any, Any] | None, str | None]:
    """Return the object in *path* and the reason of a failure; both None for a missing file."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        return None, None
    if not data.strip(b" \t\r\n\0"):
        return None, "it holds nothing but zeros or blanks" if data else "it is empty"
    try:
        value = loads(data)
    except FormatError as problem:
        return None, str(problem)
    if not isinstance(value, dict):
        return None, f"it holds a JSON {type(value).__name__} where an object belongs"
    return value, None
