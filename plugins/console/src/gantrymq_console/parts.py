"""The parts of the console, in the order of their routes."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from gantrymq_console.web.pages import Part

MODULES: Final = (
    "search",
    "topics",
    "sending",
    "message",
    "brokers",
    "nameservers",
    "audit",
    "account",
)
"""Modules of `gantrymq_console.pages` with a ``PART`` each."""

PARTS: Final[tuple[Part, ...]] = tuple(import_module(f"gantrymq_console.pages.{each}").PART for each in MODULES)
