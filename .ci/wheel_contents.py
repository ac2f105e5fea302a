"""What a wheel must contain, by the folder that it is built from: the files of its package, licences and metadata."""

from __future__ import annotations

import configparser
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from workspace import COMPILED, Distribution

NOT_PACKAGED = {".pyc", ".pyd", ".so"}  # made by Python and compilers
MODULES = (".pyd", ".so")


def problems(wheel: Path, built: Distribution) -> list[str]:
    """Return a sentence for each thing that *wheel*, built from the folder of *built*, lacks or has differently."""
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
        info = f"{wheel.name.split('-')[0]}-{wheel.name.split('-')[1]}.dist-info"
        texts = {
            name: archive.read(f"{info}/{name}").decode() if f"{info}/{name}" in names else ""
            for name in ("METADATA", "entry_points.txt")
        }
    found = [f"lacks {name}" for name in sorted(_expected(built, info) - names)]
    if built.word == COMPILED and not any(name.endswith(MODULES) for name in names):
        found.append("lacks the compiled module: it was built without a C compiler or without Python's headers")
    metadata = HeaderParser().parsestr(texts["METADATA"])
    project = built.settings["project"]
    for header, wanted in (("Version", project["version"]), ("License-Expression", project["license"])):
        if metadata[header] != wanted:
            found.append(f"has {header} {metadata[header]} in its metadata, expected {wanted}")
    if (points := _entry_points(texts["entry_points.txt"])) != (wanted := _wanted_entry_points(project)):
        found.append(f"has the entry points {points}, expected {wanted}")
    return [f"{wheel.name} {each}" for each in found]


def _expected(built: Distribution, info: str) -> set[str]:
    """Return the names of the files that the wheel must have."""
    package = {
        path.relative_to(built.source).as_posix()
        for path in (built.source / built.package).rglob("*")
        if path.is_file() and path.suffix not in NOT_PACKAGED and "__pycache__" not in path.parts
    }
    licences = {
        f"{info}/licenses/{path.relative_to(built.folder).as_posix()}"
        for pattern in built.settings["project"].get("license-files", ["LICENSE"])
        for path in built.folder.glob(pattern)
    }
    return {*package, f"{built.package}/py.typed", *licences}


def _entry_points(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(delimiters="=")
    parser.optionxform = str  # type: ignore[method-assign, assignment]  # names keep their case
    parser.read_string(text)
    return {group: dict(parser[group]) for group in parser.sections()}


def _wanted_entry_points(project: dict[str, Any]) -> dict[str, dict[str, str]]:
    scripts = {"console_scripts": project["scripts"]} if "scripts" in project else {}
    return {**scripts, **project.get("entry-points", {})}
