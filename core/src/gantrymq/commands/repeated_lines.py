"""The bound of repeated log lines of a server.

A fault that repeats for every message or connection must not fill the disk with log lines: the disk may be the fault.
Every ``log`` call, known by its file and line, writes at most `MOST` records in `WINDOW_S` seconds, and of each kind of
exception one traceback. The last of them announces that further ones are counted; their number and the text of the
newest are written with the next record of any call after the window, or at the end of the process. Records at level
DEBUG are not limited.
"""

from __future__ import annotations

import atexit
import logging
from dataclasses import dataclass, field
from typing import Final

MOST: Final = 20  # records of one call in a window
WINDOW_S: Final = 60.0


def bound_repeated_lines(handler: logging.Handler) -> None:
    """Bound the records of *handler*, and write the last counts at the end of the process."""
    repeated = RepeatedLines(handler)
    handler.addFilter(repeated)
    atexit.register(repeated.close)


@dataclass(slots=True)
class _Window:
    """Records of one call since *begun_s* (wall time of the first)."""

    begun_s: float
    count: int = 0
    newest: logging.LogRecord | None = None  # of those not written
    traced: set[type[BaseException]] = field(default_factory=set)


class RepeatedLines(logging.Filter):
    """Filter for one handler; it writes the counts of omitted records to it."""

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler
        self._windows: dict[tuple[str, int], _Window] = {}  # by place of the call; oldest first

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether *record* is written; shorten it if it is a repetition."""
        if record.levelno < logging.INFO:
            return True
        self._handler.acquire()  # records come from threads too
        try:
            self._end(record.created)
            window = self._windows.setdefault((record.pathname, record.lineno), _Window(record.created))
            window.count += 1
            if window.count > MOST:
                window.newest = record
                return False
            self._shorten(record, window)
            return True
        finally:
            self._handler.release()

    def close(self) -> None:
        """Write the counts of all omitted records."""
        self._handler.acquire()
        try:
            self._end(None)
        finally:
            self._handler.release()

    def _shorten(self, record: logging.LogRecord, window: _Window) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and type(error) in window.traced:
            record.msg, record.args = f"{_text_of(record)}: {type(error).__name__}: {_shown(error)}", ()
            record.exc_info = record.exc_text = None
        elif error is not None:
            window.traced.add(type(error))
        if window.count == MOST:
            note = f"further lines like this are counted until {WINDOW_S:.0f} s after the first"
            record.msg, record.args = f"{_text_of(record)} ({note})", ()

    def _end(self, now_s: float | None) -> None:
        """End the windows that are over at *now_s*; None ends all."""
        for place, window in list(self._windows.items()):
            # A window that begins later than now remains from before the clock was set back.
            if now_s is not None and window.begun_s <= now_s < window.begun_s + WINDOW_S:
                break
            del self._windows[place]
            if window.newest is not None:
                last = window.newest
                text = "%d more lines like this, the last: %s"
                values = (window.count - MOST, _text_of(last))
                total = logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, values, None)
                self._handler.emit(total)


def _text_of(record: logging.LogRecord) -> str:
    """Return the text of *record*; its template if the values do not fit, because a ``log`` call never raises."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def _shown(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return "(its text cannot be read)"
