"""Values in sentences of brokers, for texts of the console that state them in the reader's language.

Brokers give the stable word of a reason or cause, and an English sentence with values. A sentence of another version
that does not fit its pattern has no values here; then the text without values is shown, and the sentence beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["COUNT", "PATTERNS", "values_of"]

COUNT: Final = "count"  # value that is added up for several queues
_COUNT: Final = r"(?P<count>\d+) messages?"
PATTERNS: Final = {
    "nothing-matches": rf"'(?P<expression>.*)' matched none of {_COUNT} that it was held against",
    "different-subscriptions": r"members subscribe differently; the broker applies '(?P<expression>.*)' and ignores",
    "owner-left": r"(?P<client>\S+) pulled it last, ",
    "paused": r"(?P<client>\S+) (?:last pulled|pulls itself, and last asked) ",
    "not-committed": rf"all was handed out; {_COUNT} (?:is|are) with (?P<client>\S+), which",
    "order-stuck": (
        rf"(?P<client>\S+) reads it in order and keeps failing at offset (?P<offset>\d+), .* ago; {_COUNT} waits?; see "
    ),
    "deleted-unread": rf"{_COUNT} (?:was|were) deleted before the group read ",
    "retry-waiting": rf"{_COUNT} waits? for another try",
    "retry-behind": rf"{_COUNT} (?:is|are) to be tried again now",
    "dead-letters": rf"{_COUNT} (?:is|are) on %DLQ%",
    "disk_ratio": r"the disk of (?P<folder>.+) is (?P<percent>[\d.]+) percent full, \w+=(?P<limit>\d+) is",
    "queue_disk_ratio": r"the disk of (?P<folder>.+) is (?P<percent>[\d.]+) percent full, \w+=(?P<limit>\d+) is",
    "free_bytes": r"the disk of (?P<folder>.+) has (?P<free>\d+) bytes free, \w+=(?P<minimum>\d+) is",
    "store_quota": r"the store (?P<folder>.+) takes (?P<taken>\d+) bytes, \w+=(?P<limit>\d+) is",
}
NUMBERS: Final = frozenset({"count", "free", "minimum", "taken"})


def values_of(word: str, sentence: str) -> Mapping[str, str | int]:
    """Return the values that a broker's *sentence* of the reason or cause *word* states; none if they are not known."""
    found = re.match(PATTERNS[word], sentence) if word in PATTERNS else None
    if found is None:
        return {}
    return {name: int(value) if name in NUMBERS else value for name, value in found.groupdict().items()}
