"""The parts of the console: ``PART`` of every module of `gantrymq_console.pages` that has one."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from gantrymq_console import pages
from gantrymq_console.web.pages import Part

_MODULES: Final = [import_module(f"{pages.__name__}.{each.name}") for each in iter_modules(pages.__path__)]

PARTS: Final[tuple[Part, ...]] = tuple(each.PART for each in _MODULES if hasattr(each, "PART"))
