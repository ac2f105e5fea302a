"""The fields that sign a request, and what they sign.

    extFields   AccessKey, SecurityToken (if there is one), Signature
    Signature   base64(HMAC-SHA1(secret key, the values of all other fields in the order of their names + the body))

Source: apache/rocketmq acl/.../common/AclUtils.java, auth/.../builder/DefaultAuthenticationContextBuilder.java.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gantrymq.remoting.command import Command

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
_UNIQUE_QUERY: Final = "_UNIQUE_KEY_QUERY"
_UNIQUE_QUERY_UNSIGNED: Final = 399  # last client version that does not sign the field


def signed_text(ext: Mapping[str, str]) -> bytes:
    """Return the part of the signed content that comes from header fields."""
    return "".join([ext[name] for name in sorted(ext) if name != SIGNATURE]).encode(errors="replace")


class SignedRequest:
    """The credentials of a request; `gantrymq.interfaces.Credentials`."""

    __slots__ = ("_asked", "access_key", "security_token", "signature")

    def __init__(self, asked: Command) -> None:
        ext = asked.ext or {}
        self._asked = asked
        self.access_key = ext.get(ACCESS_KEY, "")
        self.security_token = ext.get(SECURITY_TOKEN, "")
        self.signature = ext.get(SIGNATURE, "")

    def signed_content(self) -> bytes:
        """Return the signed part of the header and the body."""
        ext = self._asked.ext or {}
        if _UNIQUE_QUERY in ext and self._asked.version <= _UNIQUE_QUERY_UNSIGNED:
            ext = {name: value for name, value in ext.items() if name != _UNIQUE_QUERY}
        return signed_text(ext) + self._asked.payload
