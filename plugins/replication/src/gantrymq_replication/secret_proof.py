"""Proof of a shared secret on new HA connections (haSecretPath).

    master -> slave   | CHALLENGE_OFFSET int64 | NEVER_BYTES int32 | nonce 32 |    the challenge
    slave -> master   | nonce 32 | proof of the slave 32 |                         the response
    master -> slave   | proof of the master 32 |

    proof = HMAC-SHA256(secret, purpose and version, role, master's nonce, slave's nonce)

Then RocketMQ's protocol follows. The secret is never sent. A proof is valid for its connection only, because each side
has chosen a nonce, and for its role only, so that it cannot be sent back to the side that computed it. The slave proves
first, so a stranger who connects to a master gets nothing that was computed from the secret but a nonce.

The challenge begins as a transfer that is impossible: a slave that does not know the exchange, RocketMQ's included,
appends nothing. A RocketMQ slave closes the connection because of the offset or, if its log is empty, waits for a body
that never comes.

Nonces are computed from the secret and random bytes, so an observer of many nonces cannot predict the next one, even
from a random generator whose state can be computed from its output.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Awaitable
from pathlib import Path
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.plugin.world import FileReader, World
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import CHALLENGE_OFFSET, HEAD, NO_HA_PORT, Refused

_PURPOSE: Final = b"GantryMQ HA identity 1\0"
_MASTER: Final = b"master\0"
_SLAVE: Final = b"slave\0"
_NONCE: Final = b"nonce\0"

_PROOF_BYTES: Final = hashlib.sha256().digest_size
_NONCE_BYTES: Final = _PROOF_BYTES
_NEVER_BYTES: Final = 1 << 30  # more than a RocketMQ slave's buffer of 4 MiB; near 2**31 its sum with 12 would overflow
_HEADER: Final = HEAD.pack(CHALLENGE_OFFSET, _NEVER_BYTES)
_CHALLENGE_BYTES: Final = len(_HEADER) + _NONCE_BYTES
_RESPONSE_BYTES: Final = _NONCE_BYTES + _PROOF_BYTES

_SHORTEST_SECRET: Final = 16
_LONGEST_SECRET: Final = 4096
_OTHERS: Final = 0o007  # permission bits
_LIMIT_S: Final = 5.0  # for the peer
_NO_RESPONSE: Final = (
    "it did not prove that it knows the secret of this master's haSecretPath; set haSecretPath there too (a slave of "
    "RocketMQ has no such setting)"
)
_NO_CHALLENGE: Final = (
    "it did not ask for the secret of haSecretPath within {:g} s: set haSecretPath there too, or leave it out here (a "
    "master of RocketMQ has no such setting)"
)
_NO_PROOF: Final = "it refuses this broker's secret; haSecretPath needs a file with the same secret on both"


def read_secret(files: FileReader, path: str) -> bytes:
    """Return the secret in the file *path*, without white space around it.

    Raises:
        ConfigError: it cannot be read, may be read by everybody, or is too short or too long.
    """
    try:
        status = files.stat(Path(path))
        if status is None:
            raise ConfigError(f"haSecretPath: there is no file {path}")
        if status.is_dir:
            raise ConfigError(f"haSecretPath: {path} is a folder")
        if status.mode & _OTHERS:
            raise ConfigError(
                f"haSecretPath: other users of this machine may read or change {path} (mode {status.mode:04o}); run: "
                f"chmod o= {path}"
            )
        secret = files.read(Path(path)).strip() if status.size <= _LONGEST_SECRET else b""
    except OSError as error:
        raise ConfigError(f"haSecretPath: {path} cannot be read: {error.strerror or error}") from error
    size = len(secret) if status.size <= _LONGEST_SECRET else status.size
    if not _SHORTEST_SECRET <= size <= _LONGEST_SECRET:
        raise ConfigError(
            f"haSecretPath: the secret in {path} has {size} bytes, {_SHORTEST_SECRET} to "
            f"{_LONGEST_SECRET} are allowed; make one with: openssl rand -hex 32"
        )
    return secret


class MasterProof:
    """The exchange with one slave, as its master sees it."""

    def __init__(self, secret: bytes, random: bytes) -> None:
        """*random*: as many bytes as a nonce, of this connection only."""
        self._secret = secret
        self._nonce = _mac(secret, _NONCE, _MASTER, random)

    @property
    def challenge(self) -> bytes:
        """The first bytes of the connection."""
        return _HEADER + self._nonce

    def answer(self, response: bytes) -> bytes:
        """Return the proof of the master, the answer to a slave's response.

        Raises:
            Refused: the slave does not know the secret.
        """
        nonce, proof = response[:_NONCE_BYTES], response[_NONCE_BYTES:]
        if not hmac.compare_digest(proof, _mac(self._secret, _SLAVE, self._nonce, nonce)):
            raise Refused("its proof is wrong: it does not know the secret of this master's haSecretPath")
        return _mac(self._secret, _MASTER, self._nonce, nonce)


class SlaveProof:
    """The exchange with the master, as a slave sees it: `respond`, then `check`."""

    def __init__(self, secret: bytes, random: bytes) -> None:
        """*random*: as many bytes as a nonce, of this connection only."""
        self._secret = secret
        self._nonce, self._expected = _mac(secret, _NONCE, _SLAVE, random), b""

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to a master's challenge.

        Raises:
            Refused: it is no challenge.
        """
        header, nonce = challenge[: len(_HEADER)], challenge[len(_HEADER) :]
        if header != _HEADER or len(nonce) != _NONCE_BYTES:
            raise Refused(f"it sent {header!r} where it should ask for the secret of haSecretPath: {NO_HA_PORT}")
        self._expected = _mac(self._secret, _MASTER, nonce, self._nonce)
        return self._nonce + _mac(self._secret, _SLAVE, nonce, self._nonce)

    def check(self, proof: bytes) -> None:
        """Check the master's proof.

        Raises:
            Refused: the master does not know the secret, or there was no challenge.
        """
        if not self._expected or not hmac.compare_digest(proof, self._expected):
            raise Refused("its proof is wrong: it does not know the secret of this broker's haSecretPath")


def _mac(secret: bytes, label: bytes, *parts: bytes) -> bytes:
    """Return the MAC of *parts*, all but the last of a fixed length."""
    return hmac.digest(secret, _PURPOSE + label + b"".join(parts), "sha256")


async def identify_slave(link: Link, secret: bytes, world: World) -> None:
    """Exchange proofs with a slave.

    Raises:
        Refused: it does not know the secret, or does not prove it in time.
    """
    own = MasterProof(secret, world.random.randbytes(_PROOF_BYTES))
    link.write(own.challenge)
    try:
        response = await _within_limit(link.read_exactly(_RESPONSE_BYTES), link, world)
    except (OSError, EOFError) as error:
        raise Refused(_NO_RESPONSE) from error
    link.write(own.answer(response))


async def identify_master(link: Link, secret: bytes, world: World) -> None:
    """Exchange proofs with the master.

    Raises:
        OSError: it says nothing, or the connection is lost.
        Refused: it does not know the secret.
    """
    own, began = SlaveProof(secret, world.random.randbytes(_PROOF_BYTES)), world.clock.monotonic()
    try:
        challenge = await _within_limit(link.read_exactly(_CHALLENGE_BYTES), link, world)
    except (OSError, EOFError) as error:
        if world.clock.monotonic() - began < _LIMIT_S:
            raise ConnectionError("it closed the connection before it asked for the secret of haSecretPath") from error
        raise ConnectionError(_NO_CHALLENGE.format(_LIMIT_S)) from error
    link.write(own.respond(challenge))
    try:
        proof = await _within_limit(link.read_exactly(_PROOF_BYTES), link, world)
    except (OSError, EOFError) as error:
        raise Refused(_NO_PROOF) from error
    own.check(proof)


async def _within_limit(read: Awaitable[bytes], link: Link, world: World) -> bytes:
    """Abort the connection if *read* takes too long, which ends it with an exception."""
    timer = world.clock.call_later(_LIMIT_S, link.abort)
    try:
        return await read
    finally:
        timer.cancel()
