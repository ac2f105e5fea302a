"""The parts of the console, in the order of their routes."""

from __future__ import annotations

from typing import Final

from gantrymq_console.pages import audit, topics
from gantrymq_console.web.pages import Part

PARTS: Final[tuple[Part, ...]] = (topics.PART, audit.PART)
