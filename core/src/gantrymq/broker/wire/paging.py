"""Pages of the topic and group tables (21 and 201).

Source: apache/rocketmq broker/.../processor/AdminBrokerProcessor.java (getAllTopicConfig, splitMetadata).
"""

from __future__ import annotations

from collections.abc import Iterable

from gantrymq import loose_json
from gantrymq.errors import FormatError, InvalidParameter
from gantrymq.model.data_version import DataVersion

MAX_PAGE = 2000  # entries
ITEMS_TOGETHER = 16  # items of a long list to process without yielding


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
