"""Building responses: JSON bodies in fastjson's dialect, refusals, and pages of tables (21 and 201).

Source: apache/rocketmq remoting/.../netty/NettyRemotingAbstract.java (processRequestCommand),
broker/.../processor/AdminBrokerProcessor.java (getAllTopicConfig, splitMetadata).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gantrymq import loose_json
from gantrymq.errors import FormatError, GantryError, InvalidParameter
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.command import Command, response_to

MAX_PAGE = 2000  # entries
ITEMS_TOGETHER = 16  # items of a long list to process without yielding


def ok(request: Command, ext: dict[str, str] | None = None, body: bytes | None = None) -> Command:
    """Return a success response."""
    return response_to(request, 0, None, ext, body)


def with_json(request: Command, body: Any, ext: dict[str, str] | None = None) -> Command:
    """Return a success response with a JSON body like fastjson's: members sorted by name, nulls omitted.

    For short bodies; those that grow with a table are written by `SlicedResponses`.
    """
    return response_to(request, 0, None, ext, loose_json.dumps(body, sort=True))


def refusal(request: Command, error: GantryError, ext: dict[str, str] | None = None) -> Command:
    """Return the error response to a refused request."""
    return response_to(request, error.response_code, str(error), ext)


def page(
    names: Iterable[str], start: int, most: int | None, seen_version: str | None, version: DataVersion
) -> tuple[list[str], int]:
    """Return the names from *start* on, and the total number of names.

    If *seen_version* (JSON text) differs from *version*, start again at the first name.

    Raises:
        InvalidParameter: *start* or *most* is negative, or the version is not JSON.
    """
    if start < 0 or (most is not None and most < 0):
        raise InvalidParameter(f"a page from {start} with {most} entries was asked; neither may be negative")
    if seen_version and start > 0:
        try:
            seen = DataVersion.from_json(loose_json.loads(seen_version))
        except (FormatError, AttributeError) as error:
            raise InvalidParameter(f"dataVersion {seen_version[:100]!r} is not a JSON object") from error
        if seen != version:
            start = 0
    size = min(MAX_PAGE, most) if most else MAX_PAGE
    listed = list(names)
    return listed[start : start + size], len(listed)
