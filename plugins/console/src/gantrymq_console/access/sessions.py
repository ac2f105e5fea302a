"""Sessions of visitors who have logged in, in memory, and limits on failed log-ins and on requests of one session."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

import attrs

from gantrymq.client import Credentials
from gantrymq.plugin.world import Clock

LONGEST_S: Final = 12 * 3600.0
IDLE_S: Final = 3600.0
MOST: Final = 5000
MOST_OF_ONE: Final = 100  # of one user; a further log-in ends the oldest one
_MOST_KEYS: Final = 10_000
_FAILURES: Final = 5
_WINDOW_S: Final = 60.0
RATE_S: Final = 20.0  # requests a second
BURST: Final = 40


@attrs.define
class Session:
    """A visitor who has logged in."""

    name: str
    version: str  # of the account at the log-in: a new password ends the session
    begun_s: float
    used_s: float  # monotonic times
    credentials: Credentials | None = None  # of a user of the cluster
    proved_s: float = 0.0  # when the cluster last accepted them


class Sessions:
    """All sessions by the digest of their ids, those used last at the end."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_id: OrderedDict[bytes, Session] = OrderedDict()
        self._of: dict[str, dict[bytes, None]] = {}  # ids of each user, in the order of their beginning
        self.on_unused: Callable[[Credentials], None] = lambda _: None  # called when no session has them any more

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, name: str, version: str, credentials: Credentials | None = None) -> str:
        """Begin a session and return its id, 256 random bits in hexadecimal."""
        now_s = self._clock.monotonic()
        if len(self._of.get(name, ())) >= MOST_OF_ONE:
            self._remove(next(iter(self._of[name])))
        while self._by_id and (len(self._by_id) >= MOST or _ended(next(iter(self._by_id.values())), now_s)):
            self._remove(next(iter(self._by_id)))
        made = secrets.token_hex(32)
        self._by_id[_key(made)] = Session(name, version, now_s, now_s, credentials, now_s)
        self._of.setdefault(name, {})[_key(made)] = None
        return made

    def find(self, session_id: str) -> Session | None:
        """Return the session with this id and note its use; None if there is none, or it has ended."""
        key = _key(session_id)
        found = self._by_id.get(key)
        if found is None:
            return None
        now_s = self._clock.monotonic()
        if _ended(found, now_s):
            self._remove(key)
            return None
        found.used_s = now_s
        self._by_id.move_to_end(key)
        return found

    def end(self, session_id: str) -> None:
        """End one session, if it exists."""
        self._remove(_key(session_id))

    def end_all(self, name: str) -> None:
        """End all sessions of a user."""
        for key in list(self._of.get(name, ())):
            self._remove(key)

    def count(self, name: str) -> int:
        """Return the number of sessions of a user."""
        now_s = self._clock.monotonic()
        for key in [key for key in self._of.get(name, ()) if _ended(self._by_id[key], now_s)]:
            self._remove(key)
        return len(self._of.get(name, ()))

    def _remove(self, key: bytes) -> None:
        found = self._by_id.pop(key, None)
        if found is not None:
            own = self._of[found.name]
            del own[key]
            if not own:
                del self._of[found.name]
            given = found.credentials
            if given is not None and all(self._by_id[each].credentials != given for each in own):
                self.on_unused(given)


def _ended(session: Session, now_s: float) -> bool:
    return now_s - session.used_s >= IDLE_S or now_s - session.begun_s >= LONGEST_S


def _key(session_id: str) -> bytes:
    return hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()


class Attempts:
    """Failed log-ins of the last minute by address and by name.

    An attempt counts as failed from its start, so that attempts at the same time do not pass the limit together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def start(self, *keys: str) -> float:
        """Count an attempt for all *keys* and return 0, or return the seconds to wait and count nothing."""
        now_s = self._clock.monotonic()
        wait_s = max(self._wait_s(key, now_s) for key in keys)
        if wait_s <= 0:
            for key in keys:
                self._times.setdefault(key, []).append(now_s)
                self._times.move_to_end(key)
            while len(self._times) > _MOST_KEYS:
                self._times.popitem(last=False)
        return wait_s

    def succeeded(self, *keys: str) -> None:
        """Do not count this attempt as a failure. Earlier failures still count."""
        for key in keys:
            times = self._times.get(key, [])
            if times:
                times.pop()
            if not times:
                self._times.pop(key, None)

    def _wait_s(self, key: str, now_s: float) -> float:
        times = self._times.get(key)
        if times is None:
            return 0.0
        times[:] = [each for each in times if now_s - each < _WINDOW_S]
        return _WINDOW_S - (now_s - times[-_FAILURES]) if len(times) >= _FAILURES else 0.0


@attrs.define
class _Bucket:
    left: float
    at_s: float


class Rates:
    """Requests of each session: `RATE_S` a second on average, `BURST` at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def allow(self, key: str) -> bool:
        """Count a request; return False if there were too many."""
        now_s = self._clock.monotonic()
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = _Bucket(BURST, now_s)
            if len(self._buckets) > _MOST_KEYS:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key)
        bucket.left = min(BURST, bucket.left + (now_s - bucket.at_s) * RATE_S)
        bucket.at_s = now_s
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True


def network_of(address: str) -> str:
    """Return the network that counts as one visitor: an IPv4 address, or a /64 network of IPv6."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        mapped = found.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((found, 64), strict=False))
    return str(found)
