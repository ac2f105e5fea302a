"""Values in sentences of brokers, for texts of the console that state them in the reader's language.

Brokers give the stable word of a cause, and an English sentence with values. A sentence of another version
that does not fit its pattern has no values here; then the text without values is shown, and the sentence beside it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["PATTERNS", "values_of"]

PATTERNS: Final = {
    "disk_ratio": r"the disk of (?P<folder>.+) is (?P<percent>[\d.]+) percent full, \w+=(?P<limit>\d+) is",
    "queue_disk_ratio": r"the disk of (?P<folder>.+) is (?P<percent>[\d.]+) percent full, \w+=(?P<limit>\d+) is",
    "free_bytes": r"the disk of (?P<folder>.+) has (?P<free>\d+) bytes free, \w+=(?P<minimum>\d+) is",
    "store_quota": r"the store (?P<folder>.+) takes (?P<taken>\d+) bytes, \w+=(?P<limit>\d+) is",
}
NUMBERS: Final = frozenset({"free", "minimum", "taken"})


def values_of(word: str, sentence: str) -> Mapping[str, str | int]:
    """Return the values that a broker's *sentence* of the cause *word* states; none if they are not known."""
    found = re.match(PATTERNS[word], sentence) if word in PATTERNS else None
    if found is None:
        return {}
    return {name: int(value) if name in NUMBERS else value for name, value in found.groupdict().items()}
