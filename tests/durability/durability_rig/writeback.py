"""Keeps the kernel from writing dirty pages by itself, so that a power cut takes everything that nobody synced.

The switches are the machine's: while they are held, what other processes wrote waits for memory to run short or for a
sync of their own. They are put back at the end; two runs at a time take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FOLDER = Path("/proc/sys/vm")
HOUR_CS = 360_000
HELD = {"dirty_writeback_centisecs": HOUR_CS, "dirty_expire_centisecs": HOUR_CS}


@contextmanager
def writeback_held() -> Iterator[str]:
    """Yields what was done, in one sentence: where the switches cannot be written nothing is."""
    import fcntl

    with (Path(tempfile.gettempdir()) / "gantrymq-writeback.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        before: dict[str, str] = {}
        try:
            try:
                for name, value in HELD.items():
                    before[name] = (FOLDER / name).read_text().strip()
                    (FOLDER / name).write_text(str(value))
                said = "the kernel writes no dirty page by itself"
            except OSError as error:
                said = f"the kernel writes dirty pages as it likes ({error})"
            yield said
        finally:
            for name, value in before.items():
                try:
                    (FOLDER / name).write_text(value)
                except OSError:
                    assert (FOLDER / name).read_text().strip() == value  # it could not be changed either
