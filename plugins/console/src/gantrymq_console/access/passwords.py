"""Passwords as scrypt digests: ``scrypt:<n>:<r>:<p>:<salt>:<digest>``, salt and digest in hexadecimal.

Source: RFC 7914. The parameters take 32 MiB and about 0.1 s for each check.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from typing import Final

from gantrymq.plugin.world import Workers

_COST: Final = 2**15
_BLOCK: Final = 8
_PARALLEL: Final = 1
_MOST_BYTES: Final = 128 * 1024 * 1024
_AT_ONCE: Final = 2  # checks that run at the same time
MOST_WAITING: Final = 30


class TooBusy(Exception):
    """Too many passwords are being checked."""


def digest_of(password: str, cost: int = _COST) -> str:
    """Return the digest of *password* with a new salt."""
    salt = secrets.token_bytes(16)
    return _digest(salt, cost, _scrypt(password, salt, cost, _BLOCK, _PARALLEL))


def is_digest(text: str) -> bool:
    """Return whether *text* has the form of a digest."""
    try:
        _parts(text)
    except ValueError:
        return False
    return True


class Checker:
    """Checks passwords in worker threads, a few at a time. An absent digest takes as long as a wrong password."""

    def __init__(self, workers: Workers, cost: int = _COST) -> None:
        self._workers = workers
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0
        self._absent = _digest(secrets.token_bytes(16), cost, secrets.token_bytes(32))

    async def matches(self, password: str, digest: str) -> bool:
        """Return whether *password* has *digest*, which may be empty: no password. Raises TooBusy."""
        if self._waiting >= MOST_WAITING:
            raise TooBusy
        self._waiting += 1
        try:
            async with self._turn:
                same = await self._workers.run(_matches, password, digest or self._absent)
        finally:
            self._waiting -= 1
        return same and bool(digest)


def _digest(salt: bytes, cost: int, result: bytes) -> str:
    return f"scrypt:{cost}:{_BLOCK}:{_PARALLEL}:{salt.hex()}:{result.hex()}"


def _matches(password: str, digest: str) -> bool:
    cost, block, parallel, salt, expected = _parts(digest)
    return hmac.compare_digest(_scrypt(password, salt, cost, block, parallel), expected)


def _parts(digest: str) -> tuple[int, int, int, bytes, bytes]:
    kind, cost, block, parallel, salt, expected = digest.split(":")
    if kind != "scrypt":
        raise ValueError(f"not a digest of scrypt: {kind}")
    return int(cost), int(block), int(parallel), bytes.fromhex(salt), bytes.fromhex(expected)


def _scrypt(password: str, salt: bytes, cost: int, block: int, parallel: int) -> bytes:
    secret = password.encode("utf-8", "surrogatepass")
    return hashlib.scrypt(secret, salt=salt, n=cost, r=block, p=parallel, maxmem=_MOST_BYTES, dklen=32)
