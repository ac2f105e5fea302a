"""Times in messages: milliseconds, which the broker uses, and protobuf's seconds and nanoseconds."""

from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import Code, Duration, Timestamp

_MOST_MS = 253_402_300_799_999  # the end of year 9999, the largest time of a Timestamp


def duration_ms(duration: Duration, name: str, code: Code) -> int:
    """Return *duration* in whole milliseconds.

    Raises:
        Refused: with *code*, if it is negative or longer than a Duration can be.
    """
    asked = duration.seconds * 1000 + duration.nanos // 1_000_000
    if not 0 <= asked <= _MOST_MS:
        raise Refused(code, f"{name} is {asked} ms; give 0 or more")
    return asked


def timestamp_ms(timestamp: Timestamp, name: str, code: Code) -> int:
    """Return *timestamp* in milliseconds since 1970.

    Raises:
        Refused: with *code*, if it is before 1970 or after the year 9999.
    """
    asked = timestamp.seconds * 1000 + timestamp.nanos // 1_000_000
    if not 0 <= asked <= _MOST_MS:
        raise Refused(code, f"{name} is {asked} ms since 1970; give a time of the years 1970 to 9999")
    return asked


def birth_ms(timestamp: Timestamp, now_ms: int) -> int:
    """Return *timestamp*, or *now_ms* if it is no time that a Timestamp can have."""
    said = timestamp.seconds * 1000 + timestamp.nanos // 1_000_000
    return said if 0 <= said <= _MOST_MS else now_ms


def set_ms(field: Timestamp | Duration, milliseconds: int) -> None:
    """Set a field of a message, which is present from now on, to the nearest time that clients take."""
    field.seconds, rest = divmod(min(max(milliseconds, 0), _MOST_MS), 1000)
    field.nanos = rest * 1_000_000
