"""The exchange of proofs (`identity`) over a new HA connection."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final

from gantrymq.world import World
from gantrymq_replication.identity import (
    CHALLENGE_BYTES,
    PROOF_BYTES,
    RESPONSE_BYTES,
    MasterIdentity,
    SlaveIdentity,
)
from gantrymq_replication.link import Link
from gantrymq_replication.protocol import Refused

__all__ = ["identify_master", "identify_slave"]

LIMIT_S: Final = 5.0  # for the peer

NO_RESPONSE: Final = (
    "it did not prove that it knows the secret of this master's haSecretPath; set haSecretPath there too (a slave of "
    "RocketMQ has no such setting)"
)
NO_CHALLENGE: Final = (
    "it did not ask for the secret of haSecretPath within {:g} s: set haSecretPath there too, or leave it out here (a "
    "master of RocketMQ has no such setting)"
)
NO_PROOF: Final = "it refuses this broker's secret; haSecretPath needs a file with the same secret on both"


async def identify_slave(link: Link, secret: bytes, world: World) -> None:
    """Exchange proofs with a slave.

    Raises:
        Refused: it does not know the secret, or does not prove it in time.
    """
    identity = MasterIdentity(secret, world.random.randbytes(PROOF_BYTES))
    link.write(identity.challenge)
    try:
        response = await _within_limit(link.read_exactly(RESPONSE_BYTES), link, world)
    except (OSError, EOFError) as error:
        raise Refused(NO_RESPONSE) from error
    link.write(identity.answer(response))


async def identify_master(link: Link, secret: bytes, world: World) -> None:
    """Exchange proofs with the master.

    Raises:
        OSError: it says nothing, or the connection is lost.
        Refused: it does not know the secret.
    """
    identity, began = SlaveIdentity(secret, world.random.randbytes(PROOF_BYTES)), world.clock.monotonic()
    try:
        challenge = await _within_limit(link.read_exactly(CHALLENGE_BYTES), link, world)
    except (OSError, EOFError) as error:
        if world.clock.monotonic() - began < LIMIT_S:
            raise ConnectionError("it closed the connection before it asked for the secret of haSecretPath") from error
        raise ConnectionError(NO_CHALLENGE.format(LIMIT_S)) from error
    link.write(identity.respond(challenge))
    try:
        proof = await _within_limit(link.read_exactly(PROOF_BYTES), link, world)
    except (OSError, EOFError) as error:
        raise Refused(NO_PROOF) from error
    identity.check(proof)


async def _within_limit(read: Awaitable[bytes], link: Link, world: World) -> bytes:
    """Abort the connection if *read* takes too long, which ends it with an exception."""
    timer = world.clock.call_later(LIMIT_S, link.abort)
    try:
        return await read
    finally:
        timer.cancel()
