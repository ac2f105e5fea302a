"""Sessions of visitors who have logged in, in memory: they end with the console."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from typing import Final

import attrs

from gantrymq.world import Clock

__all__ = ["Session", "Sessions"]

LONGEST_S: Final = 12 * 3600.0
IDLE_S: Final = 3600.0
MOST: Final = 5000
MOST_OF_ONE: Final = 100  # of one user; a further log-in ends the one that was unused for the longest time


@attrs.define
class Session:
    """A visitor who has logged in."""

    name: str
    version: str  # of the account at the log-in: a new password ends the session
    begun_s: float
    used_s: float  # monotonic times


class Sessions:
    """All sessions by the digest of their ids, those used last at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_id: OrderedDict[bytes, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, name: str, version: str) -> str:
        """Begin a session and return its id, 256 random bits in hexadecimal."""
        now_s = self._clock.monotonic()
        self._drop(now_s)
        own = [key for key, each in self._by_id.items() if each.name == name]
        for key in own[: max(0, len(own) + 1 - MOST_OF_ONE)]:
            del self._by_id[key]
        if len(self._by_id) >= MOST:
            self._by_id.popitem(last=False)
        made = secrets.token_hex(32)
        self._by_id[_key(made)] = Session(name, version, now_s, now_s)
        return made

    def find(self, session_id: str) -> Session | None:
        """Return the session with this id and note its use; None if there is none, or it has ended."""
        key = _key(session_id)
        found = self._by_id.get(key)
        if found is None:
            return None
        now_s = self._clock.monotonic()
        if _ended(found, now_s):
            del self._by_id[key]
            return None
        found.used_s = now_s
        self._by_id.move_to_end(key)
        return found

    def end(self, session_id: str) -> None:
        """End one session, if it exists."""
        self._by_id.pop(_key(session_id), None)

    def end_all(self, name: str) -> int:
        """End all sessions of a user, and return their number."""
        own = [key for key, each in self._by_id.items() if each.name == name]
        for key in own:
            del self._by_id[key]
        return len(own)

    def count(self, name: str) -> int:
        """Return the number of sessions of a user."""
        self._drop(self._clock.monotonic())
        return sum(each.name == name for each in self._by_id.values())

    def _drop(self, now_s: float) -> None:
        for key in [key for key, each in self._by_id.items() if _ended(each, now_s)]:
            del self._by_id[key]


def _ended(session: Session, now_s: float) -> bool:
    return now_s - session.used_s >= IDLE_S or now_s - session.begun_s >= LONGEST_S


def _key(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()
