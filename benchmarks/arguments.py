"""Types of command-line arguments: an unusable value ends the program with one sentence and exit code 2."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

__all__ = ["FLUSH_MODES", "existing_folder", "seconds", "whole"]

FLUSH_MODES = ("ASYNC_FLUSH", "SYNC_FLUSH")


def whole(least: int) -> Callable[[str], int]:
    """Whole numbers of *least* and more."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{number} is less than {least}")
        return number

    return parse


def seconds(least: float) -> Callable[[str], float]:
    """Times of *least* seconds up to a day, which also keeps ``nan`` and ``inf`` out."""

    def parse(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
        if not least <= number <= 86_400:
            raise argparse.ArgumentTypeError(f"{text} is not between {least:g} and 86400 s")
        return number

    return parse


def existing_folder(text: str) -> Path:
    """Return the path of an existing folder."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no folder")
    return Path(text)
