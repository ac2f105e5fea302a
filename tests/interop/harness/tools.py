"""Required programs, and the cache of downloads."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent.parent


def require(*names: str) -> None:
    """Skip the test if one of the programs *names* is not on the PATH."""
    for name in names:
        if shutil.which(name) is None:
            pytest.skip(f"the interop tests need `{name}` on the PATH")


def cache() -> Path:
    """Return the folder for jars and node modules: $GANTRYMQ_INTEROP_CACHE, or one below ~/.cache."""
    chosen = os.environ.get("GANTRYMQ_INTEROP_CACHE")
    folder = Path(chosen) if chosen else Path.home() / ".cache" / "gantrymq" / "interop"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def filling(folder: Path) -> Iterator[Path | None]:
    """Yield a new folder that becomes *folder* at the end, or None if *folder* exists.

    A file lock makes a second run wait for the first. Files of an interrupted run are removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            yield None
            return
        part = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        yield part
        part.rename(folder)
