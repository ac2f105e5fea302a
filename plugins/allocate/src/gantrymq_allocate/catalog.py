"""Strategies by name, each built from its settings.

| name | settings |
|---|---|
| AVG_BY_CIRCLE | none |
| CONSISTENT_HASH | virtual_nodes |
| MACHINE_ROOM | rooms |
| MACHINE_ROOM_NEARBY | inner, separator, and settings of the inner strategy |
| MACHINE_ROOM_NEARBY-<inner> | separator, and settings of the inner strategy |
| CONFIG | queues |
| STICKY | previous |

AVG, which is core's, can be an inner strategy. An unknown setting, or an invalid value, raises ConfigError with one
sentence.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.plugin.interfaces import AllocationStrategy
from gantrymq.plugin.model import Averagely, averagely
from gantrymq_allocate.by_circle import AveragelyByCircle
from gantrymq_allocate.consistent_hash import DEFAULT_VIRTUAL_NODES, ConsistentHash
from gantrymq_allocate.machine_room import Configured, MachineRoom
from gantrymq_allocate.nearby import MachineRoomNearby
from gantrymq_allocate.queue_list import parse_previous, parse_queues
from gantrymq_allocate.settings import StrategySettings
from gantrymq_allocate.sticky import Sticky

_MAX_VIRTUAL_NODES = 10_000
_DEFAULT_SEPARATOR = "-"


def averagely_by_circle(settings: dict[str, str]) -> AveragelyByCircle:
    """Create AVG_BY_CIRCLE. Raises ConfigError if there is any setting."""
    StrategySettings("AVG_BY_CIRCLE", settings).finish()
    return AveragelyByCircle()


def consistent_hash(settings: dict[str, str]) -> ConsistentHash:
    """Create CONSISTENT_HASH with ``virtual_nodes`` (0 to 10000, default 10). Raises ConfigError if it is invalid."""
    given = StrategySettings("CONSISTENT_HASH", settings)
    nodes = given.number("virtual_nodes", DEFAULT_VIRTUAL_NODES, 0, _MAX_VIRTUAL_NODES)
    given.finish()
    return ConsistentHash(nodes)


def machine_room(settings: dict[str, str]) -> MachineRoom:
    """Create MACHINE_ROOM with ``rooms`` (names separated by commas). Raises ConfigError if no room is given."""
    given = StrategySettings("MACHINE_ROOM", settings)
    rooms = given.names("rooms", "the rooms to consume from, separated by commas, such as rooms=room1,room2")
    given.finish()
    return MachineRoom(frozenset(rooms))


def configured(settings: dict[str, str]) -> Configured:
    """Create CONFIG with ``queues`` (default none). Raises ConfigError if `parse_queues` refuses the list."""
    given = StrategySettings("CONFIG", settings)
    queues = given.parsed("queues", parse_queues)
    given.finish()
    return Configured(queues)


def sticky(settings: dict[str, str]) -> Sticky:
    """Create STICKY with ``previous`` (default none). Raises ConfigError if `parse_previous` refuses it."""
    given = StrategySettings("STICKY", settings)
    previous = given.parsed("previous", parse_previous)
    given.finish()
    return Sticky(previous)


_SHARING_HERE: dict[str, Callable[[dict[str, str]], AllocationStrategy]] = {
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
    "STICKY": sticky,
}

SHARING: dict[str, Callable[[dict[str, str]], AllocationStrategy]] = {Averagely.name: averagely, **_SHARING_HERE}
"""Strategies that distribute any given queues, and so can be the inner strategy of another one."""

PLAIN: dict[str, Callable[[dict[str, str]], AllocationStrategy]] = {
    **_SHARING_HERE,
    "CONFIG": configured,
    "MACHINE_ROOM": machine_room,
}


def nearby(settings: dict[str, str], inner: str | None = None) -> MachineRoomNearby:
    """Create MACHINE_ROOM_NEARBY with ``separator`` (default "-") and, without *inner*, ``inner`` (default AVG).

    All other settings are passed to the inner strategy.

    Raises:
        ConfigError: the separator is empty, the inner name is not in `SHARING`, a setting looks like a misspelt one of
            these, or the inner strategy refuses the remaining settings.
    """
    given = StrategySettings("MACHINE_ROOM_NEARBY" + (f"-{inner}" if inner else ""), settings)
    separator = given.text("separator", _DEFAULT_SEPARATOR)
    chosen = inner or given.choice("inner", "AVG", SHARING)
    return MachineRoomNearby(SHARING[chosen](given.rest()), separator)
