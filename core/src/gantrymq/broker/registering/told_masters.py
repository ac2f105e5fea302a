"""The master of a slave, as several name servers tell it in their answers to registrations.

Name servers know nothing of each other. One that was restarted, or that the master cannot reach, tells no master, and
two brokers that are both registered as the master are told by different ones. RocketMQ's slave takes the first answer:
it stops copying tables without a master in it, and changes between two masters.

Here the present master stays as long as any name server tells it. After that the first one told takes its place. The
last answer of a name server that is not reachable does not count.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

__all__ = ["Master", "ToldMasters"]

log = logging.getLogger(__name__)


class Master(NamedTuple):
    """Addresses of a master."""

    address: str  # host:port
    ha_address: str


class ToldMasters:
    """The last answers, by name server."""

    def __init__(self) -> None:
        self.present: Master | None = None  # stays when no name server tells a master any more
        self._told: dict[str, Master] = {}
        self._warned: frozenset[Master] = frozenset()

    def heard(self, name_server: str, master: Master | None) -> bool:
        """Note an answer. Return whether the present master is another one now."""
        if master is None:
            self._told.pop(name_server, None)
        else:
            self._told[name_server] = master
        return self._choose()

    def lost(self, name_server: str) -> bool:
        """Note that a name server is not reachable. Return whether the present master is another one now."""
        self._told.pop(name_server, None)
        return self._choose()

    def _choose(self) -> bool:
        told = list(self._told.values())
        changed = bool(told) and self.present not in told
        if changed:
            self.present = told[0]
        self._warn(frozenset(told))
        return changed

    def _warn(self, told: frozenset[Master]) -> None:
        """Log once that name servers disagree."""
        if len(told) > 1 and told != self._warned and self.present is not None:
            others = ", ".join(sorted(each.address for each in told if each != self.present))
            log.warning(
                "name servers tell different masters of this broker name: %s, and %s; this slave stays with the first "
                "one; stop the other one, or give it another brokerName",
                *(self.present.address, others),
            )
        self._warned = told if len(told) > 1 else frozenset()
