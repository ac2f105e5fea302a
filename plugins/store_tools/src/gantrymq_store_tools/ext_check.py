"""Checks of ext files on their own: consecutive complete units. `queue_check` checks the entries that refer to them.

ext.damaged    a unit whose lengths do not add up
ext.stray      bytes after the last unit of a file
"""

from __future__ import annotations

from gantrymq.errors import FormatError
from gantrymq_store_files.ext_unit import END_OF_UNITS, read_ext_unit
from gantrymq_store_tools.findings import Finding
from gantrymq_store_tools.layout import Layout
from gantrymq_store_tools.open_files import OpenFiles


def check_ext(layout: Layout, open_files: OpenFiles) -> list[Finding]:
    """Check the units of every ext file. One file is in memory at a time (48 MiB with RocketMQ's default size)."""
    found = []
    for _, series in sorted(layout.ext.items()):
        for file in series.files:
            name = layout.name(file.path)
            try:
                data = open_files.read(file.path, 0, file.size)
            except OSError as error:
                found.append(Finding("ext.unreadable", name, f"{name} cannot be read: {error}"))
                continue
            position = 0
            try:
                while (unit := read_ext_unit(data, position)) is not None:
                    position += unit.size
            except FormatError as problem:
                found.append(Finding("ext.damaged", name, f"{name}: {problem}", position))
                continue
            marked = data[position : position + 2] == END_OF_UNITS
            rest = data[position + 2 :] if marked else data[position:]
            if stray := len(rest.rstrip(b"\0")):
                text = f"{name}: {stray} bytes after the end of its units at {position}"
                found.append(Finding("ext.stray", name, text, position, stray))
            elif not marked and file is not series.files[-1] and len(rest) >= 2:
                text = f"{name}: its units end at {position} without the end mark that refers readers to the next file"
                found.append(Finding("ext.damaged", name, text, position))
    return found
