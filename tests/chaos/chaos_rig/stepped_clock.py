"""A wall clock that a test steps under running processes, as an operator or a time server would.

libfaketime (Debian's package `faketime`) intercepts a process's calls to the C library. A file holds the offset of the
wall clock and is read at every clock call. The monotonic clock, waiting and file times stay real. On a machine whose
clock is really set, times of files written after the step would change too: a test must not rely on them.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

LIBRARIES = ("/usr/lib/*/faketime/libfaketime.so.1", "/usr/lib*/faketime/libfaketime.so.1")
DAY_S = 86_400
ASK = "import time; print(time.time() - time.monotonic())"
NEAR_S = 60.0


class SteppedClock:
    """Wall time of the processes that are started with `environ`.

    Attributes:
        ahead_s: seconds ahead of the real time; negative if behind.
    """

    def __init__(self, folder: Path) -> None:
        """Skips the test if the library is missing or has no effect."""
        if sys.platform != "linux":
            pytest.skip("libfaketime is tried on Linux alone")
        found = [path for pattern in LIBRARIES for path in Path("/").glob(pattern.lstrip("/"))]
        if not found:
            pytest.skip("needs libfaketime (Debian's package faketime) to step the clock of a process")
        self._file = folder / "ahead"
        self.ahead_s = 0.0
        self.environ = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",  # every clock call reads the file
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",  # its name in later versions
            "NO_FAKE_STAT": "1",
        }
        true = self._base_of_a_process()
        self.step_to(DAY_S)
        if not abs(self._base_of_a_process() - true - DAY_S) < NEAR_S:
            pytest.skip(f"{found[0]} does not step the clock of {sys.executable}")
        self.step_to(0)

    def step_to(self, ahead_s: float) -> None:
        """Set the clock; processes see it at their next clock call."""
        written = self._file.with_suffix(".new")
        written.write_text(f"{ahead_s:+}")
        written.replace(self._file)
        self.ahead_s = ahead_s

    def now_ms(self) -> int:
        """The time that the processes see."""
        return int((time.time() + self.ahead_s) * 1000)

    def _base_of_a_process(self) -> float:
        """Wall time at the start of the monotonic clock, as a process started with `environ` sees it."""
        if not self._file.exists():
            self._file.write_text("+0")
        done = subprocess.run([sys.executable, "-c", ASK], env=self.environ, capture_output=True, text=True, check=True)
        return float(done.stdout)
