"""Records, of which commands show some values as a table and scripts get all as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from gantrymq.plugin.commands import local_time, print_table

__all__ = ["Columns", "local_times", "print_records", "seconds", "text"]

Read: TypeAlias = "str | Callable[[Any], object]"
Columns: TypeAlias = "Sequence[str | tuple[str, Read]]"
"""Names of values, which are their titles too, or titles with a name or with a function that returns the value."""


def print_records(records: Iterable[Any], columns: Columns) -> None:
    """Print records, objects or mappings, as a table; None is a dash."""
    titled = [(each.replace("_", " ").capitalize(), each) if isinstance(each, str) else each for each in columns]
    print_table([title for title, _ in titled], [[_cell(each, read) for _, read in titled] for each in records])


def seconds(name: str, after: str = "") -> Callable[[Any], object]:
    """Return a column that shows a number of milliseconds as seconds."""

    def read(record: Any) -> str | None:
        ms = _value(record, name)
        return None if ms is None else f"{ms / 1000:.0f} s{after}"

    return read


def local_times(name: str, *, fraction: bool = False) -> Callable[[Any], object]:
    """Return a column that shows milliseconds since 1970 as local time; 0 is no time."""

    def read(record: Any) -> str | None:
        at_ms = _value(record, name)
        return local_time(at_ms, fraction=fraction) if at_ms else None

    return read


def text(name: str) -> Callable[[Any], object]:
    """Return a column of texts that is empty for None."""
    return lambda record: _value(record, name) or ""


def _cell(record: Any, read: Read) -> object:
    value = _value(record, read) if isinstance(read, str) else read(record)
    return "-" if value is None else value


def _value(record: Any, name: str) -> Any:
    return record[name] if isinstance(record, Mapping) else getattr(record, name)
