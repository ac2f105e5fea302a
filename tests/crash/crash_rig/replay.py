"""Which numbers to run: ``137`` is one, with everything it says; ``200-399`` is a piece of a long run."""

from __future__ import annotations

import os
from collections.abc import Iterable


def numbers(variable: str, otherwise: range) -> tuple[Iterable[int], bool]:
    """The numbers that the environment names, or *otherwise*; and whether it is a single one."""
    first, _, last = os.environ.get(variable, "").partition("-")
    if not first:
        return otherwise, False
    return range(int(first), int(last or first) + 1, otherwise.step), not last
