"""Prevents the kernel from writing dirty pages on its own, so that a power cut loses all unsynced data.

The switches apply to the whole machine: meanwhile, data of other processes is written only when memory is short or when
they sync it. They are restored at the end; concurrent runs take turns.
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
    """Yield a sentence that describes the result; if the switches cannot be written, nothing is changed."""
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
