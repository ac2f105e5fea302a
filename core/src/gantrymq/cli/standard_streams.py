"""stdin, stdout and stderr of commands: closed ones, full ones, and characters that their encoding lacks."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gantrymq.errors import GantryError

_AS_JSON = "gantrymq-json"  # name of the error handler
_DEFAULT_HANDLERS = ("strict", "surrogateescape")  # Python's; another one was set by the user


class OutputNotWritten(GantryError):
    """stdout cannot be written, such as to a full disk."""


class _Output(io.TextIOWrapper):
    """stdout that raises `OutputNotWritten` for failed writes, except to a pipe whose reader has left.

    The interpreter flushes it last, when the globals of modules may be None already: only failures use any.
    """

    def write(self, text: str, /) -> int:
        """Write or buffer *text*."""
        if text == "":  # click probes streams with it and ignores the error
            return 0
        try:
            return super().write(text)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise _not_written(problem, self.fileno()) from None

    def flush(self) -> None:
        """Flush the buffer."""
        try:
            super().flush()
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise _not_written(problem, self.fileno()) from None


def _not_written(problem: OSError, descriptor: int) -> OutputNotWritten:
    """Return the error; later writes go to the null device, so that the interpreter's flush succeeds."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return OutputNotWritten(f"stdout cannot be written: {problem.strerror}")


@contextmanager
def prepared_streams() -> Iterator[None]:
    r"""Prepare the standard streams for a command, and flush stdout at its end.

    A stream that is closed (``>&-``) becomes the null device: otherwise the next opened file would get its descriptor,
    and uvloop aborts the process when it closes a descriptor below 3. Characters that the encoding of stdout lacks are
    printed as JSON escapes, such as ``\u00e9``.

    Raises:
        OutputNotWritten: stdout cannot be written.
    """
    _open_closed()
    out = sys.stdout
    if isinstance(out, io.TextIOWrapper) and out is sys.__stdout__:
        codecs.register_error(_AS_JSON, _json_escapes)
        errors = _AS_JSON if out.errors in _DEFAULT_HANDLERS else out.errors
        encoding, buffering, through = out.encoding, out.line_buffering, out.write_through
        sys.stdout = _Output(out.detach(), encoding, errors, line_buffering=buffering, write_through=through)
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as head, has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(1) from None


def _open_closed() -> None:
    """Open the null device for each standard descriptor that is closed."""
    for descriptor, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(descriptor)
        except OSError:
            # It gets the lowest free number. Processes that the command starts need it, too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            stream = open(descriptor, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _json_escapes(problem: UnicodeError) -> tuple[str, int]:
    """Return the escapes of the characters that cannot be encoded, and where to continue."""
    if not isinstance(problem, UnicodeEncodeError):
        raise problem
    units = problem.object[problem.start : problem.end].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)), problem.end
