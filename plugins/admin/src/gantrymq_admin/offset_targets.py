"""Targets of an offset reset: ``earliest``, ``latest``, a time, or a queue offset. No I/O.

A whole number is a queue offset; from `FIRST_TIME_MS` on it is milliseconds since the epoch, as times are everywhere
else on the command line. No queue of RocketMQ's has that number of messages: its entries alone would be two terabytes.
"""

from __future__ import annotations

import attrs
import click

from gantrymq.client import OffsetTarget
from gantrymq.plugin.client import EARLIEST, LATEST
from gantrymq.plugin.commands import TIMES, read_time_ms

FIRST_TIME_MS = 100_000_000_000  # in March 1973


@attrs.frozen
class Target(OffsetTarget):
    """A target, with its original text."""

    text: str = attrs.field(default="", kw_only=True)


def parse_target(text: str, now_ms: int) -> Target:
    """Parse the value of ``--to``.

    Raises:
        click.BadParameter: it is none of the four, negative, or a future time.
    """
    word = text.strip()
    if word.lower() in (EARLIEST, LATEST):
        return Target(text=text, edge=word.lower())
    if word.isascii() and word.isdecimal() and int(word) < FIRST_TIME_MS:
        return Target(text=text, queue_offset=int(word))
    try:
        time_ms = read_time_ms(word if word.isascii() else "", now_ms)
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is none of earliest, latest, a queue offset, and a time such as {TIMES}"
        ) from None
    if time_ms > now_ms:
        raise click.BadParameter(f"{text!r} is still to come; latest passes over all there is now")
    return Target(text=text, time_ms=time_ms)
