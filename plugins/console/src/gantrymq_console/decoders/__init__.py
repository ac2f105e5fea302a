"""Decoders of bodies by topic: what a plugin implements, and those that come with the console.

A distribution registers a decoder in the group of entry points ``gantrymq_console.decoders``:

    [project.entry-points."gantrymq_console.decoders"]
    orders = "my_package.decoding:OrderDecoder"

The entry point is called with one text, the argument of the option ``--decoder TOPIC=orders:ARGUMENT``, and returns a
`Decoder`. An attribute ``topics`` of the entry point, a sequence of patterns such as ``("orders-*",)``, names topics
that need no option; it is called with an empty text then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

GROUP = "gantrymq_console.decoders"


class Decoder(Protocol):
    """Turns bodies into text or JSON. It is called in a thread, by several at a time."""

    def decode(self, topic: str, body: bytes, properties: Mapping[str, str]) -> object:
        """Return the text of a body, or objects, arrays, strings and numbers for JSON.

        Args:
            topic: of the message; of a retry or dead letter, the original one.
            body: the whole, decompressed.
            properties: all properties of the message.

        Raises:
            Exception: the body cannot be decoded; the page shows the message of the error, and the body undecoded.
        """
