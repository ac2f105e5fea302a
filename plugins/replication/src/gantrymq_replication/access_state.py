"""Users and permissions, from a master to its slaves: the state of the authorizer (65035).

    slave -> master   {"version": "9b1c..."}                           of the files that it has
    master -> slave   {"controlled": "true", "version": "e07a..."}     body: the files by name, JSON, deflated; none if
                                                                       the version is the same

The version is a digest. Brokers of RocketMQ keep users each for themselves, and do not know the request.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from typing import Final, cast

import attrs

from gantrymq.errors import FormatError, NoPermission
from gantrymq.plugin.interfaces import Access
from gantrymq.plugin.loose_json import dumps
from gantrymq.plugin.model import Principal
from gantrymq.plugin.remoting import Command, RequestCode, response_to
from gantrymq.plugin.world import Workers
from gantrymq_replication.table_answers import members_of

ASK_ACCESS: Final = cast(RequestCode, 65035)  # GantryMQ's own
_MOST_BYTES: Final = 256 * 1024 * 1024  # of all files, inflated

Texts = Mapping[str, str]


def version_of(texts: Texts) -> str:
    """Return the version of files; empty without files."""
    digest = hashlib.sha256()
    for name in sorted(texts):
        for part in (name.encode(), texts[name].encode()):
            digest.update(len(part).to_bytes(8, "big"))
            digest.update(part)
    return digest.hexdigest() if texts else ""


@attrs.frozen
class MasterAccess:
    """The answer of a master."""

    controlled: bool  # it controls access
    version: str
    texts: Texts | None = attrs.field(repr=False)  # None: the slave has this version, or there are no files


def texts_for(access: Access, reader: Principal | None) -> Texts:
    """Return the files of the authorizer for a replica.

    Raises:
        NoPermission: *reader* may not know all secrets, and so is no replica; None is a client without an account.
    """
    if reader is None and access.authorizer is not None:
        raise NoPermission("copying users and permissions needs an account, also through this listener")
    return access.state_texts(reader)


async def answer_of(access: Access, asked: Command, reader: Principal | None, workers: Workers) -> Command:
    """Return the answer to 65035.

    Raises:
        NoPermission: *reader* may not know all secrets; None is a client without an account.
    """
    texts = texts_for(access, reader)
    version = await workers.run(version_of, texts)
    ext = {"controlled": str(access.authorizer is not None).lower(), "version": version}
    same = not texts or (asked.ext or {}).get("version") == version
    return response_to(asked, 0, None, ext, None if same else await workers.run(_packed, texts))


async def read_answer(reply: Command, workers: Workers) -> MasterAccess:
    """Return what an answer says. Raises FormatError."""
    ext, body = reply.ext or {}, bytes(reply.payload)
    texts = await workers.run(_unpacked, body) if body else None
    return MasterAccess(ext.get("controlled") == "true", ext.get("version", ""), texts)


def _packed(texts: Texts) -> bytes:
    return zlib.compress(dumps(dict(texts)))


def _unpacked(body: bytes) -> Texts:
    inflating = zlib.decompressobj()
    try:
        found = inflating.decompress(body, _MOST_BYTES)
    except zlib.error as error:
        raise FormatError(f"the master's users and permissions cannot be read: {error}") from error
    if not inflating.eof:
        raise FormatError(f"the master's users and permissions have more than {_MOST_BYTES} bytes, or are cut off")
    texts = members_of(found, "users and permissions")
    if not all(isinstance(part, str) for each in texts.items() for part in each):
        raise FormatError("the master's users and permissions are not texts by file name")
    return texts
