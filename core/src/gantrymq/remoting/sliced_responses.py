"""Responses that grow with topics, groups, queues or clients: their JSON is written in slices of the event loop.

A response of 40,000 queues takes a second to write, and no step of the loop may take longer than 20 ms. Tables may
change between two slices: the body's generators take a copy of the names first, and leave out what was deleted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from gantrymq.errors import ConnectionLost, FormatError, RequestRefused
from gantrymq.loose_json import Entries, dumps_in_slices
from gantrymq.remoting.codes import request_name
from gantrymq.remoting.command import Command, response_to
from gantrymq.remoting.frame import MAX_FRAME_BYTES
from gantrymq.world import Clock
from gantrymq.world.time_slices import TimeSlices

__all__ = ["MAX_AT_ONCE", "MAX_BODY_BYTES", "MAX_ITEMS", "SlicedResponses"]

MAX_AT_ONCE: Final = 4  # responses written at the same time; each adds a slice to every iteration of the loop
MAX_ITEMS: Final = 64  # of a slice
MAX_BODY_BYTES: Final = MAX_FRAME_BYTES - 64 * 1024  # the rest is for the header


class SlicedResponses:
    """Creates the long responses of one server, a few at a time; the others wait in the order of their requests."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns = asyncio.Semaphore(MAX_AT_ONCE)

    async def make(
        self,
        request: Command,
        connection: object,
        body: Entries | Mapping[str, Any],
        ext: dict[str, str] | None = None,
    ) -> Command:
        """Return a success response with the JSON *body*; the members of a mapping are sorted.

        Raises:
            ConnectionLost: the connection closed meanwhile. The rest of the body was not created.
            RequestRefused: code 1, the body does not fit into a frame.
        """
        async with self._turns:
            slices = TimeSlices(self._clock, MAX_ITEMS)

            async def item_done() -> None:
                await slices.item_done()
                if getattr(connection, "closed", False):
                    raise ConnectionLost(f"the peer of {request_name(request.code)} has closed the connection")

            members = body if isinstance(body, Entries) else Entries.of(body)
            try:
                written = await dumps_in_slices(members, item_done, max_bytes=MAX_BODY_BYTES)
            except FormatError as error:
                raise RequestRefused(
                    1, f"{request_name(request.code)}: the response does not fit into a frame ({error}); ask for a part"
                ) from error
            return response_to(request, 0, None, ext, written)
