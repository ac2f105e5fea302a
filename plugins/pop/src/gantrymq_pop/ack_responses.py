"""Responses to acknowledgements: responses of the same moment are sent with one write per client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.remoting import (
    FLAG_ONEWAY,
    FLAG_RESPONSE,
    PREFIX,
    SERIALIZE_JSON,
    Command,
    Connection,
    encode,
    response_to,
)

WaitingRequest = tuple[Command, Connection]  # a request and the connection for its response
AckCallback = Callable[[GantryError | None], None]

_DONE: Final = encode(Command(0, opaque=-999, flag=FLAG_RESPONSE))[8:].replace(b"-999", b"%d")


def answer_all(answers: Iterable[WaitingRequest | AckCallback], problem: GantryError | None) -> None:
    """Answer requests, and call callbacks, with success or the *problem*."""
    frames: dict[Connection, list[bytes]] = {}
    for each in answers:
        if not isinstance(each, tuple):
            each(problem)
            continue
        request, connection = each
        if not request.flag & FLAG_ONEWAY:
            frames.setdefault(connection, []).append(_frame(request, problem))
    for connection, written in frames.items():
        connection.reply_parts((b"".join(written),))


def _frame(request: Command, problem: GantryError | None) -> bytes:
    if problem is not None:
        return encode(response_to(request, problem.response_code, str(problem)))
    if request.serialize != SERIALIZE_JSON:
        return encode(response_to(request))
    header = _DONE % request.opaque
    return PREFIX.pack(4 + len(header), len(header)) + header
