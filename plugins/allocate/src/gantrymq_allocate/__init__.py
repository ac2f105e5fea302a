"""Queue allocation for GantryMQ: which member of a group consumes which queue.

Each strategy is a pure function of its settings, the queues and the members, so every member computes the same answer
without communication. Arithmetic and names are RocketMQ's; STICKY is GantryMQ's own. `Averagely` is core's.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.plugin.model import Averagely as Averagely
    from gantrymq_allocate.by_circle import AveragelyByCircle as AveragelyByCircle
    from gantrymq_allocate.consistent_hash import ConsistentHash as ConsistentHash
    from gantrymq_allocate.machine_room import Configured as Configured
    from gantrymq_allocate.machine_room import MachineRoom as MachineRoom
    from gantrymq_allocate.nearby import MachineRoomNearby as MachineRoomNearby
    from gantrymq_allocate.sticky import Sticky as Sticky
else:  # the entry point `gantrymq_allocate.plugin` imports this package in every server and command
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.plugin.model": "Averagely",
            "gantrymq_allocate.by_circle": "AveragelyByCircle",
            "gantrymq_allocate.consistent_hash": "ConsistentHash",
            "gantrymq_allocate.machine_room": "Configured MachineRoom",
            "gantrymq_allocate.nearby": "MachineRoomNearby",
            "gantrymq_allocate.sticky": "Sticky",
        },
    )
