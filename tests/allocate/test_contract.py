"""All strategies fulfil the contract of allocation strategies."""

from functools import partial

from gantrymq_allocate.catalog import PLAIN, SHARING, nearby
from gantrymq_testing import AllocationContract

ROOM_BROKERS = ("hz-a", "hz-b", "sh-a", "bj-a")
ROOM_CLIENTS = ("hz-10.0.0.1@1", "hz-10.0.0.2@2", "hz-10.0.0.3@3", "sh-10.0.1.1@1", "sh-10.0.1.2@2", "gz-10.0.2.1@1")


class TestAveragely(AllocationContract):
    make_strategy = partial(SHARING["AVG"], {})


class TestAveragelyByCircle(AllocationContract):
    make_strategy = partial(PLAIN["AVG_BY_CIRCLE"], {})


class TestConsistentHash(AllocationContract):
    make_strategy = partial(PLAIN["CONSISTENT_HASH"], {"virtual_nodes": "20"})
    spread = None
    moves_only_what_it_must = True


class TestSticky(AllocationContract):
    make_strategy = partial(PLAIN["STICKY"], {})


class TestStickyThatKnowsThePast(AllocationContract):
    make_strategy = partial(
        PLAIN["STICKY"],
        {"previous": '{"192.168.0.2@1002#22": "ContractTopic/broker-a/0-7", "gone": "ContractTopic/broker-b/0-8"}'},
    )


class TestMachineRoomThatHasAllBrokers(AllocationContract):
    make_strategy = partial(PLAIN["MACHINE_ROOM"], {"rooms": "room1,room2"})
    broker_names = ("room1@broker-a", "room2@broker-b", "room2@broker-c")


class TestMachineRoom(AllocationContract):
    make_strategy = partial(PLAIN["MACHINE_ROOM"], {"rooms": "room1"})
    broker_names = ("room1@broker-a", "room1@broker-b", "room2@broker-c", "broker-d")
    covers_all_queues = False  # queues of other rooms


class TestConfigured(AllocationContract):
    make_strategy = partial(PLAIN["CONFIG"], {"queues": "ContractTopic/broker-a/0-3,ContractTopic/broker-z/7"})
    covers_all_queues = False
    reads_queues = False
    reads_members = False


class TestNearbyWithAveragely(AllocationContract):
    make_strategy = partial(nearby, {})
    broker_names, client_names = ROOM_BROKERS, ROOM_CLIENTS
    keeps_order = False  # its own room is first
    spread = None  # rooms differ in size


class TestNearbyWithConsistentHash(AllocationContract):
    make_strategy = partial(nearby, {"inner": "CONSISTENT_HASH", "virtual_nodes": "5"})
    broker_names, client_names = ROOM_BROKERS, ROOM_CLIENTS
    keeps_order = False
    spread = None


class TestNearbyWithSticky(AllocationContract):
    make_strategy = partial(nearby, {}, inner="STICKY")
    broker_names, client_names = ROOM_BROKERS, ROOM_CLIENTS
    keeps_order = False
    spread = None
