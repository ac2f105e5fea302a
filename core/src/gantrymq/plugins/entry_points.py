"""Entry points of the installed distributions in one group, read from their folders on ``sys.path``.

`importlib.metadata` finds the same, but its import (email, csv, zipfile) costs a command 15 ms or more, and so do the
names and versions of the distributions. It is used for zip files, eggs, and path finders of other packages.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache, reduce
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any, Final, NamedTuple

_ENDS: Final = (".dist-info", ".egg-info")


class EntryPoint(NamedTuple):
    """One entry point of a distribution."""

    name: str
    value: str  # "package.module" or "package.module:attribute"
    distribution: str  # its name for pip
    version: str

    def load(self) -> Any:
        """Import the module, and return it or the attribute. Exceptions of the import are raised."""
        module, _, attributes = self.value.partition("[")[0].partition(":")
        return reduce(getattr, filter(None, attributes.strip().split(".")), import_module(module.strip()))


def entry_points(group: str, distribution: str = "") -> list[EntryPoint]:
    """Return the entry points in *group*, of the first distribution of each name on the path.

    Args:
        group: the name of a section in ``entry_points.txt``.
        distribution: only of the distribution with this name for pip; empty means of all.
    """
    wanted = _normalized(distribution)
    # Programs put paths of pathlib there, too. The import system ignores everything but texts.
    paths = [os.fsdecode(each) for each in sys.path if isinstance(each, str | os.PathLike)]
    if not all(map(_is_plain, paths)) or any(map(_finds_distributions, sys.meta_path)):
        return _of_metadata(group, wanted)
    found: list[EntryPoint] = []
    seen: set[str] = set()
    for path in paths:
        for folder in _names(path):
            stem, end = os.path.splitext(folder)
            if end.lower() not in _ENDS:
                continue
            name = _normalized(stem.partition("-")[0])
            if name not in seen and wanted in ("", name):
                seen.add(name)
                found.extend(_of_folder(os.path.join(path or ".", folder), group))
    return found


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()


def _is_plain(path: str) -> bool:
    """Return whether *path* is a folder with distributions, or nothing that could have any."""
    return not path.lower().endswith(".egg") and not os.path.isfile(path)


def _finds_distributions(finder: object) -> bool:
    return finder is not PathFinder and hasattr(finder, "find_distributions")


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path or ".")
    except OSError:
        return []


@cache  # a start reads them three times
def _of_folder(folder: str, group: str) -> tuple[EntryPoint, ...]:
    rows = list(_section(_lines(folder, "entry_points.txt"), group))
    if not rows:
        return ()
    about: dict[str, str] = {}
    for line in _lines(folder, "METADATA") or _lines(folder, "PKG-INFO"):
        key, colon, value = line.partition(":")
        if not colon:  # the headers are over
            break
        about.setdefault(key.lower(), value.strip())
    stem, _, rest = os.path.splitext(os.path.basename(folder))[0].partition("-")
    version = about.get("version", rest.partition("-")[0] or "?")
    return tuple(EntryPoint(name, value, about.get("name", stem), version) for name, value in rows)


def _lines(folder: str, name: str) -> list[str]:
    """Return the lines of a file; none if there is no such file. Other encodings than UTF-8 spoil single characters."""
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def _section(lines: list[str], group: str) -> Iterator[tuple[str, str]]:
    """Return names and values in a section, as `importlib.metadata` reads them."""
    inside = False
    for line in map(str.strip, lines):
        if line.startswith("[") and line.endswith("]"):
            inside = line.strip("[]") == group
        elif inside and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _of_metadata(group: str, wanted: str) -> list[EntryPoint]:
    from importlib.metadata import entry_points as find

    found = []
    for point in find(group=group):
        name = point.dist.name if point.dist is not None else point.module
        if wanted in ("", _normalized(name)):
            found.append(
                EntryPoint(point.name, point.value, name, point.dist.version if point.dist is not None else "?")
            )
    return found
