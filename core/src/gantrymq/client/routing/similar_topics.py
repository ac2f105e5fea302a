"""The existing topic whose name resembles a missing one, for errors and warnings about a topic without a route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.loose_json import loads
from gantrymq.model.names import DLQ_PREFIX, RETRY_PREFIX, similar_name
from gantrymq.remoting.codes import RequestCode, ResponseCode
from gantrymq.remoting.command import Command
from gantrymq.world import Clock

__all__ = ["SimilarTopics"]

AGAIN_S: Final = 600.0  # between two requests for the same topic
TIMEOUT_S: Final = 3.0
_MOST: Final = 100  # remembered topics

Names = Callable[[str], str]


class SimilarTopics:
    """Asks a name server for its topics, once for each missing topic in `AGAIN_S`."""

    def __init__(
        self,
        request_any: Callable[[RequestCode, None, float], Awaitable[tuple[Command, str]]],
        clock: Clock,
        wrap: Names,
        unwrap: Names,
    ) -> None:
        """*wrap* adds the namespace to a name, *unwrap* removes it."""
        self._request_any, self._clock, self._wrap, self._unwrap = request_any, clock, wrap, unwrap
        self._hints: dict[str, tuple[float, str]] = {}  # by topic, with the time of the request

    async def hint(self, topic: str) -> str:
        """Return `` (did you mean ...?)`` for a missing topic, or an empty text."""
        now = self._clock.monotonic()
        if not isinstance(topic, str) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX)):
            return ""
        at, hint = self._hints.get(topic, (-AGAIN_S, ""))
        if now - at >= AGAIN_S:
            if len(self._hints) >= _MOST:
                self._hints.clear()
            self._hints[topic] = now, ""  # concurrent calls do not ask as well
            hint = await self._asked(topic)
            self._hints[topic] = now, hint
        return hint

    async def _asked(self, topic: str) -> str:
        try:
            reply, _ = await self._request_any(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None, TIMEOUT_S)
            names = (
                [str(each) for each in loads(reply.payload)["topicList"]] if reply.code == ResponseCode.SUCCESS else []
            )
        except (GantryError, KeyError, TypeError, ValueError):
            return ""  # not allowed, or no answer: the error itself is the same
        found = similar_name(self._wrap(topic), (each for each in names if not each.startswith("%")))
        return f" (did you mean {self._unwrap(found)}?)" if found else ""
