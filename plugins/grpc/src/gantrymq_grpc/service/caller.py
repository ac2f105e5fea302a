"""Who sent a request, as the handlers of requests see it."""

from __future__ import annotations

from typing import Final, NamedTuple

from gantrymq.plugin.model import Principal
from gantrymq.plugin.remoting import LanguageCode
from gantrymq_grpc.conversion.codes import Refused
from gantrymq_grpc.definitions import Code
from gantrymq_grpc.transport.call import Call

_LONGEST_ID: Final = 1024  # SDKs join the name of the host and some numbers
_LONGEST_VERSION: Final = 64


class Caller(NamedTuple):
    """The sender of one request."""

    call: Call
    client_id: str
    principal: Principal | None  # None without access control

    @property
    def language(self) -> str:
        """RocketMQ's name of the client's language; ``OTHER`` if the client names none that tools know."""
        name = self.call.metadata.get("x-mq-language", "").upper()
        return name if name in LanguageCode.__members__ else LanguageCode.OTHER.name

    @property
    def version(self) -> str:
        """Version of the SDK, such as ``5.0.8``; empty if the client sends none."""
        version = self.call.metadata.get("x-mq-client-version", "")
        return version if version.isascii() and version.isprintable() and len(version) <= _LONGEST_VERSION else ""


def caller_of(call: Call, principal: Principal | None) -> Caller:
    """Return the sender of a request. Raises Refused if it names itself not at all, or by an illegal client id."""
    client_id = call.metadata.get("x-mq-client-id", "")
    if not client_id.strip():
        raise Refused(Code.CLIENT_ID_REQUIRED, "client id cannot be empty")
    if not (client_id.isascii() and client_id.isprintable() and len(client_id) <= _LONGEST_ID):
        raise Refused(
            Code.CLIENT_ID_REQUIRED,
            f"the client id ({len(client_id)} characters) has other characters than printable ASCII, or more than "
            f"{_LONGEST_ID}",
        )
    return Caller(call, client_id, principal)
