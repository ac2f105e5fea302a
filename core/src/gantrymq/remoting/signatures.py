"""The fields that sign a request, and what they sign.

    extFields   AccessKey, SecurityToken (if there is one), Signature
    Signature   base64(HMAC-SHA1(secret key, the values of all other fields in the order of their names + the body))

Source: apache/rocketmq acl/.../common/AclUtils.java, auth/.../builder/DefaultAuthenticationContextBuilder.java.
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Mapping
from typing import Final, Protocol

from gantrymq.remoting.codes import ResponseCode
from gantrymq.remoting.command import Command

ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"
ACL_ERROR: Final = "org.apache.rocketmq.acl.common.AclException: "  # 4.9 answers code 1 with it
_ABOUT_ACCOUNTS: Final = re.compile(r"signature|\buser(name)?\b|has no permission to access", re.IGNORECASE)  # of 5.3
_ABOUT_RECORDS: Final = re.compile(r"the (user|subject|acl)\b.* exist", re.IGNORECASE)  # of administration
_UNIQUE_QUERY: Final = "_UNIQUE_KEY_QUERY"
UNIQUE_QUERY_UNSIGNED: Final = 399  # last client version that does not sign the field


def signed_text(ext: Mapping[str, str]) -> bytes:
    """Return the part of the signed content that comes from header fields."""
    return "".join([ext[name] for name in sorted(ext) if name != SIGNATURE]).encode(errors="replace")


def is_access_refusal(code: int, remark: str) -> bool:
    """Return whether a response comes from access control, and is not another refusal with the same code."""
    if code == ResponseCode.SYSTEM_ERROR:
        return remark.startswith(ACL_ERROR)
    if code != ResponseCode.NO_PERMISSION or _ABOUT_RECORDS.match(remark):
        return False
    return _ABOUT_ACCOUNTS.search(remark) is not None


class Account(Protocol):
    """An account at a cluster."""

    @property
    def access_key(self) -> str:
        """Its name."""

    @property
    def secret_key(self) -> str:
        """The key of its signatures."""

    @property
    def security_token(self) -> str | None:
        """The token of a temporary account."""


class Signer:
    """Signs requests with the keys of one account."""

    def __init__(self, account: Account) -> None:
        """Prepare the HMAC of the secret key."""
        self._account = account
        self._keyed = hmac.new(account.secret_key.encode(), digestmod="sha1")

    def sign(self, request: Command) -> None:
        """Add the account and the signature to *request*; changing the request afterwards invalidates the signature."""
        ext = request.ext
        if ext is None:
            ext = request.ext = {}
        ext[ACCESS_KEY] = self._account.access_key
        if self._account.security_token is not None:
            ext[SECURITY_TOKEN] = self._account.security_token
        digest = self._keyed.copy()
        digest.update(signed_text(ext))
        if request.body:
            digest.update(request.body)
        ext[SIGNATURE] = base64.b64encode(digest.digest()).decode()


class SignedRequest:
    """The credentials of a request; `gantrymq.interfaces.Credentials`."""

    __slots__ = ("_asked", "access_key", "request", "security_token", "signature")

    def __init__(self, asked: Command) -> None:
        ext = asked.ext or {}
        self._asked = asked
        self.request: int | str = asked.code
        self.access_key = ext.get(ACCESS_KEY, "")
        self.security_token = ext.get(SECURITY_TOKEN, "")
        self.signature = ext.get(SIGNATURE, "")

    def signed_content(self) -> bytes:
        """Return the signed part of the header and the body."""
        ext = self._asked.ext or {}
        if _UNIQUE_QUERY in ext and self._asked.version <= UNIQUE_QUERY_UNSIGNED:
            ext = {name: value for name, value in ext.items() if name != _UNIQUE_QUERY}
        return signed_text(ext) + self._asked.payload
