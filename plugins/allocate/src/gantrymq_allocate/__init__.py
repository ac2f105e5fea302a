"""Queue allocation for GantryMQ: which member of a group consumes which queue.

Each strategy is a pure function of its settings, the queues and the members, so every member computes the same answer
without communication. Arithmetic and names are RocketMQ's; STICKY is GantryMQ's own. `Averagely` is core's.
"""

from gantrymq.plugin.model import Averagely
from gantrymq_allocate.by_circle import AveragelyByCircle
from gantrymq_allocate.consistent_hash import ConsistentHash
from gantrymq_allocate.machine_room import Configured, MachineRoom
from gantrymq_allocate.nearby import MachineRoomNearby
from gantrymq_allocate.sticky import Sticky

__all__ = [
    "Averagely",
    "AveragelyByCircle",
    "Configured",
    "ConsistentHash",
    "MachineRoom",
    "MachineRoomNearby",
    "Sticky",
]
