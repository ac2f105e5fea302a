"""The master of a slave, as several name servers report it in their answers to registrations.

Name servers know nothing of each other. One that was restarted, or that the master cannot reach, may report no master,
and different name servers may report different masters. RocketMQ's slave uses the first answer: it stops copying tables
without a master in it, and changes between two masters.

Here the present master stays as long as any name server reports it. After that the first reported one takes its place.
The last answer of a name server that is not reachable does not count.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

log = logging.getLogger(__name__)


class Master(NamedTuple):
    """Addresses of a master."""

    address: str  # host:port
    ha_address: str


class ReportedMasters:
    """The last answers, by name server."""

    def __init__(self) -> None:
        self.present: Master | None = None  # stays when no name server reports a master any more
        self._reported: dict[str, Master] = {}
        self._warned: frozenset[Master] = frozenset()

    def heard(self, name_server: str, master: Master | None) -> bool:
        """Note an answer. Return whether the present master is another one now."""
        if master is None:
            self._reported.pop(name_server, None)
        else:
            self._reported[name_server] = master
        return self._choose()

    def lost(self, name_server: str) -> bool:
        """Note that a name server is not reachable. Return whether the present master is another one now."""
        self._reported.pop(name_server, None)
        return self._choose()

    def _choose(self) -> bool:
        reported = list(self._reported.values())
        changed = bool(reported) and self.present not in reported
        if changed:
            self.present = reported[0]
        self._warn(frozenset(reported))
        return changed

    def _warn(self, reported: frozenset[Master]) -> None:
        """Log once that name servers disagree."""
        if len(reported) > 1 and reported != self._warned and self.present is not None:
            others = ", ".join(sorted(each.address for each in reported if each != self.present))
            log.warning(
                "name servers tell different masters of this broker name: %s, and %s; this slave stays with the first "
                "one; stop the other one, or give it another brokerName",
                *(self.present.address, others),
            )
        self._warned = reported if len(reported) > 1 else frozenset()
