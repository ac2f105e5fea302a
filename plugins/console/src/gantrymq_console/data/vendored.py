"""The files of others in ``static/vendor``: where they come from, and under which license."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files

import attrs

__all__ = ["VendoredFile", "vendored"]


@attrs.frozen
class VendoredFile:
    """One file."""

    name: str
    package: str  # at npm
    version: str
    path: str  # in the package
    license: str
    license_file: str
    sha256: str


@cache
def vendored() -> tuple[VendoredFile, ...]:
    """Return all files."""
    text = files("gantrymq_console").joinpath("static", "vendor", "VENDORED.toml").read_text("utf-8")
    return tuple(VendoredFile(**each) for each in tomllib.loads(text)["file"])
