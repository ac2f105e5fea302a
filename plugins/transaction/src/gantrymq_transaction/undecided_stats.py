"""Statistics of undecided transactions."""

from __future__ import annotations

import attrs

__all__ = ["UndecidedStats"]


@attrs.frozen
class UndecidedStats:
    """Number and age of undecided transactions."""

    count: int
    oldest_born_ms: int | None  # as of the last check round; None if it left none
