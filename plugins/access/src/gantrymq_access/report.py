"""What a broker has refused, or would have refused with ``accessMode=report``."""

from __future__ import annotations

from typing import Any, Final

import attrs

from gantrymq.plugin.model import Principal
from gantrymq.plugin.world import Clock

MAX_ROWS: Final = 10_000
MAX_UNKNOWN: Final = 1_000  # of them for users who are not known: their names are chosen by clients without an account
MAX_RESOURCE: Final = 512  # characters; a longer name is of nothing that exists


@attrs.define
class _Row:
    """One kind of refusal."""

    command: str
    first_ms: int
    count: int = 0
    last_ms: int = 0
    source: str = ""  # of the last request
    request: int | str = 0  # of the last one


class Report:
    """A row for each user, resource, actions and reason since the start of the broker."""

    def __init__(self, clock: Clock) -> None:
        """Create an empty report."""
        self._clock = clock
        self._rows: dict[tuple[str, str, tuple[str, ...], str], _Row] = {}
        self._unknown = self._left_out = 0

    def add(
        self, principal: Principal, actions: tuple[str, ...], resource: str, reason: str, command: str = ""
    ) -> None:
        """Count a decision; equal ones of one connection may be cached and count once.

        Args:
            actions, resource: empty for a client whose user is not known.
            command: what grants it; empty if nothing does.
        """
        now, key = self._clock.now_ms(), (principal.name, resource, actions, reason)
        row = self._rows.get(key)
        if row is None:
            is_full = len(self._rows) >= MAX_ROWS or (not resource and self._unknown >= MAX_UNKNOWN)
            if is_full or len(resource) > MAX_RESOURCE:
                self._left_out += 1
                return
            self._unknown += not resource
            row = self._rows[key] = _Row(command, now)
        row.count += 1
        row.last_ms, row.source, row.request = now, principal.source, principal.request

    def to_json(self) -> dict[str, Any]:
        """Return the body of the answer to request 65041."""
        rows = [
            {
                "actions": list(actions),
                "command": row.command,
                "count": row.count,
                "first": row.first_ms,
                "last": row.last_ms,
                "reason": reason,
                "request": row.request,
                "resource": resource,
                "source": row.source,
                "user": user,
            }
            for (user, resource, actions, reason), row in sorted(self._rows.items(), key=lambda each: each[0][:2])
        ]
        return {"leftOut": self._left_out, "rows": rows}
