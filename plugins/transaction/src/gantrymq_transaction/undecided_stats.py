"""What is said of undecided transactions in numbers."""

from __future__ import annotations

import attrs

__all__ = ["UndecidedStats"]


@attrs.frozen
class UndecidedStats:
    """How many transactions nobody has decided, and since when."""

    count: int
    oldest_born_ms: int | None  # as of the last round; None where it left none
