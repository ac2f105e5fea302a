"""Reports when a broker becomes a master or an acting master, and when it is neither any longer."""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import Broker
from gantrymq.plugin.model import Role


class Mastership:
    """A service that runs while the broker serves receives."""

    name = "grpc"
    roles = frozenset({Role.MASTER, Role.ACTING_MASTER})

    def __init__(self) -> None:
        self.is_master = False
        self.serves_receives = False
        self._changed: Callable[[], object] = lambda: None

    def on_change(self, callback: Callable[[], object]) -> None:
        """Call *callback* after each change; it replaces an earlier one."""
        self._changed = callback

    async def start(self, broker: Broker) -> None:
        """The broker is a master or an acting master now."""
        self.serves_receives, self.is_master = True, broker.role.current is Role.MASTER
        self._changed()

    async def stop(self) -> None:
        """The broker is neither any more, or stops."""
        self.is_master = self.serves_receives = False
        self._changed()
