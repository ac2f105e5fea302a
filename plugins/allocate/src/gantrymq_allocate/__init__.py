"""Queue allocation for GantryMQ: who of a group consumes which queue.

Each strategy is a pure function of its settings, the queues and the members, so that every member computes the same
answer without talking to the others. Arithmetic and names are RocketMQ's; STICKY is ours.
"""

from gantrymq_allocate.averagely import Averagely, AveragelyByCircle
from gantrymq_allocate.configured import Configured
from gantrymq_allocate.consistent_hash import ConsistentHash
from gantrymq_allocate.machine_room import MachineRoom
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
