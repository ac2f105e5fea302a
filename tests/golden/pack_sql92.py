"""Write sql92.jsonl.xz: every tenth of the random pairs, and the edge cases, with the answers of Java's filter 5.3.3.

    python tests/golden/pack_sql92.py          needs Java and Maven, as the interop tests do

The same pairs give the same bytes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "support"), str(TESTS / "interop")]

from harness import JavaFilters  # noqa: E402 (it is found only now)
from sql92_golden import Answered, write  # noqa: E402
from sql92_pairs import COUNT, SEED, corners, pairs  # noqa: E402

SAMPLE = 2_000


def main() -> None:
    """Query Java and write the file."""
    chosen = [*list(pairs(SEED, COUNT))[:: COUNT // SAMPLE], *corners()]
    with tempfile.TemporaryDirectory() as scratch, JavaFilters(Path(scratch)) as java:
        answers = java.answers(chosen)
    write(Answered(*pair, answer.answer) for pair, answer in zip(chosen, answers, strict=True))


if __name__ == "__main__":
    main()
