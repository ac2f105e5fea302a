"""An `Admin` for a command: what its errors say, and which option of the command line helps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gantrymq.client import Admin
from gantrymq.client.admin import ClusterUnclear, HalfReset, OffsetOutside
from gantrymq.errors import ClientError, GroupNotExist

__all__ = ["asking"]

_ADVICE: dict[type[ClientError], str] = {
    ClusterUnclear: "; -c names a cluster, -b one broker",
    GroupNotExist: "; 'gantrymq group list' shows those there are",
    HalfReset: ", run the command again",
    OffsetOutside: ". Pick a queue with -q, or use a time",
}
"""By the class of an error of the library; the command's own errors have their advice in them."""


@asynccontextmanager
async def asking(namesrv: str) -> AsyncIterator[Admin]:
    """A started `Admin`, closed behind the block; its errors tell which option or command helps.

    Args:
        namesrv: ``host:port;host:port``.
    """
    async with Admin(namesrv) as admin:
        try:
            yield admin
        except ClientError as problem:
            advice = _ADVICE.get(type(problem))
            if advice is None or "gantrymq " in str(problem):
                raise
            raise type(problem)(f"{problem}{advice}") from problem
