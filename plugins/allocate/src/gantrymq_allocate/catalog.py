"""Strategies by name, each built from its settings.

| name | settings |
|---|---|
| AVG, AVG_BY_CIRCLE | none |
| CONSISTENT_HASH | virtual_nodes |
| MACHINE_ROOM | rooms |
| MACHINE_ROOM_NEARBY | inner, separator, and those of the inner strategy |
| MACHINE_ROOM_NEARBY-<inner> | separator, and those of the inner strategy |
| CONFIG | queues |
| STICKY | previous |

A setting that a strategy does not know, or whose value does not fit, raises ConfigError with one sentence.
"""

from __future__ import annotations

from collections.abc import Callable

from gantrymq.interfaces import AllocationStrategy
from gantrymq_allocate.averagely import Averagely, AveragelyByCircle
from gantrymq_allocate.configured import Configured
from gantrymq_allocate.consistent_hash import DEFAULT_VIRTUAL_NODES, ConsistentHash
from gantrymq_allocate.machine_room import MachineRoom
from gantrymq_allocate.nearby import MachineRoomNearby
from gantrymq_allocate.queue_list import parse_previous, parse_queues
from gantrymq_allocate.settings import StrategySettings
from gantrymq_allocate.sticky import Sticky

MAX_VIRTUAL_NODES = 10_000
DEFAULT_SEPARATOR = "-"


def averagely(settings: dict[str, str]) -> Averagely:
    """AVG. Raises ConfigError: there is a setting."""
    StrategySettings("AVG", settings).finish()
    return Averagely()


def averagely_by_circle(settings: dict[str, str]) -> AveragelyByCircle:
    """AVG_BY_CIRCLE. Raises ConfigError: there is a setting."""
    StrategySettings("AVG_BY_CIRCLE", settings).finish()
    return AveragelyByCircle()


def consistent_hash(settings: dict[str, str]) -> ConsistentHash:
    """CONSISTENT_HASH with ``virtual_nodes`` (0 to 10000, default 10). Raises ConfigError: not such a number."""
    given = StrategySettings("CONSISTENT_HASH", settings)
    nodes = given.number("virtual_nodes", DEFAULT_VIRTUAL_NODES, 0, MAX_VIRTUAL_NODES)
    given.finish()
    return ConsistentHash(nodes)


def machine_room(settings: dict[str, str]) -> MachineRoom:
    """MACHINE_ROOM with ``rooms`` (names separated by commas). Raises ConfigError: no room is named."""
    given = StrategySettings("MACHINE_ROOM", settings)
    rooms = given.names("rooms", "the rooms to consume from, separated by commas, such as rooms=room1,room2")
    given.finish()
    return MachineRoom(frozenset(rooms))


def configured(settings: dict[str, str]) -> Configured:
    """CONFIG with ``queues`` (default none). Raises ConfigError: the list does not read as `parse_queues` says."""
    given = StrategySettings("CONFIG", settings)
    queues = given.parsed("queues", parse_queues)
    given.finish()
    return Configured(queues)


def sticky(settings: dict[str, str]) -> Sticky:
    """STICKY with ``previous`` (default none). Raises ConfigError: it does not read as `parse_previous` says."""
    given = StrategySettings("STICKY", settings)
    previous = given.parsed("previous", parse_previous)
    given.finish()
    return Sticky(previous)


SHARING: dict[str, Callable[[dict[str, str]], AllocationStrategy]] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": averagely_by_circle,
    "CONSISTENT_HASH": consistent_hash,
    "STICKY": sticky,
}
"""Those that share out whatever queues they are given, and so can work inside of another."""

PLAIN: dict[str, Callable[[dict[str, str]], AllocationStrategy]] = {
    **SHARING,
    "CONFIG": configured,
    "MACHINE_ROOM": machine_room,
}


def nearby(settings: dict[str, str], inner: str | None = None) -> MachineRoomNearby:
    """MACHINE_ROOM_NEARBY with ``separator`` (default "-") and, unless *inner* is given, ``inner`` (default AVG).

    Every other setting is the inner strategy's.

    Raises:
        ConfigError: the separator is empty, the inner name is not one of `SHARING`, a setting looks like a misspelt
            one of these, or the inner strategy refuses what is left.
    """
    given = StrategySettings("MACHINE_ROOM_NEARBY" + (f"-{inner}" if inner else ""), settings)
    separator = given.text("separator", DEFAULT_SEPARATOR)
    chosen = inner or given.choice("inner", "AVG", SHARING)
    return MachineRoomNearby(SHARING[chosen](given.rest()), separator)
