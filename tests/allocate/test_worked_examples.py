"""The worked examples of RocketMQ's strategies: the member of each queue."""

import pytest

from gantrymq.errors import InvalidParameter
from gantrymq.model.queue import MessageQueue
from gantrymq_allocate import Averagely, AveragelyByCircle, Configured, ConsistentHash, MachineRoom, MachineRoomNearby
from gantrymq_allocate.consistent_hash import position
from gantrymq_allocate.machine_room import room_of

IDS = ["192.168.0.1@1001#11", "192.168.0.2@1002#22", "192.168.0.3@1003#33"]


def queues(**brokers):
    """Queues of TopicTest by short broker name, e.g. a=4 for broker-a."""
    return [MessageQueue("TopicTest", f"broker-{short}", i) for short, n in brokers.items() for i in range(n)]


def answers(strategy, of, ids=IDS):
    """For each member its queues as "a0 a1": the last letters of the broker's name and the id."""
    return [
        " ".join(f"{q.broker_name.removeprefix('broker-')}{q.queue_id}" for q in strategy.allocate("g", i, of, ids))
        for i in ids
    ]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Averagely(), ["a0 a1 a2", "a3 a4 a5", "a6 a7"]),
        (AveragelyByCircle(), ["a0 a3 a6", "a1 a4 a7", "a2 a5"]),
        (ConsistentHash(), ["a4 a6", "a5", "a0 a1 a2 a3 a7"]),
        (ConsistentHash(0), ["", "", ""]),
        (MachineRoom({"room1", "broker-a"}), ["", "", ""]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_one_broker_three_members(strategy, expected):
    assert answers(strategy, queues(a=8)) == expected


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Averagely(), ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
        (AveragelyByCircle(), ["a0 a3 b2", "a1 b0 b3", "a2 b1"]),
        (ConsistentHash(), ["b2", "b0 b1", "a0 a1 a2 a3 b3"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_two_brokers_three_members(strategy, expected):
    assert answers(strategy, queues(a=4, b=4)) == expected


@pytest.mark.parametrize(
    ("rooms", "expected"),
    [
        ({"room1"}, ["a0 a3", "a1", "a2"]),
        ({"room1", "room2"}, ["a0 a1 b2", "a2 a3 b3", "b0 b1"]),
        ({"room3"}, ["", "", ""]),
    ],
)
def test_machine_room(rooms, expected):
    of = [
        MessageQueue("TopicTest", f"room{1 + 'ab'.index(short)}@broker-{short}", i) for short in "ab" for i in range(4)
    ]
    shown = [text.replace("room1@broker-", "").replace("room2@broker-", "") for text in answers(MachineRoom(rooms), of)]
    assert shown == expected


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("room1@broker-a", "room1"),
        ("room1@broker-a@", "room1"),
        ("@broker-a", ""),
        ("broker-a", None),
        ("broker-a@", None),
        ("room1@broker@a", None),
        ("@", None),
        ("", None),
    ],
)
def test_a_room_is_the_first_of_two_parts_as_java_splits(name, room):
    assert room_of(name) == room


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        (Averagely(), ["hz-a0 hz-a1 bj-c0", "hz-a2 hz-a3 bj-c1", "sh-b0 sh-b1"]),
        (AveragelyByCircle(), ["hz-a0 hz-a2 bj-c0", "hz-a1 hz-a3 bj-c1", "sh-b0 sh-b1"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_nearby_shares_a_room_without_members_among_all(inner, expected):
    of = [MessageQueue("T", name, i) for name, n in (("bj-c", 2), ("hz-a", 4), ("sh-b", 2)) for i in range(n)]
    assert answers(MachineRoomNearby(inner, "-"), of, ["hz-c1", "hz-c2", "sh-c3"]) == expected


@pytest.mark.parametrize(
    ("of", "ids", "sentence"),
    [
        (queues(a=1), ["c1"], "the client id c1 names no room"),
        ([MessageQueue("T", "b", 0)], ["hz-c1"], "the broker name b names no room"),
        ([MessageQueue("T", "-b", 0)], ["hz-c1"], "the broker name -b names no room"),
    ],
)
def test_nearby_says_what_has_no_room(of, ids, sentence):
    with pytest.raises(InvalidParameter, match=sentence):
        MachineRoomNearby(Averagely(), "-").allocate("g", ids[0], of, ids)


def test_config_is_the_list_whoever_asks():
    configured = Configured(queues(a=2))
    assert configured.allocate("g", "stranger", [], []) == queues(a=2)
    assert Configured(()).allocate("g", IDS[0], queues(a=2), IDS) == []


EDGES = [
    (1, 3, "0 | - | -", "0 | - | -"),
    (2, 3, "0 | 1 | -", "0 | 1 | -"),
    (3, 3, "0 | 1 | 2", "0 | 1 | 2"),
    (4, 3, "0 1 | 2 | 3", "0 3 | 1 | 2"),
    (9, 4, "0 1 2 | 3 4 | 5 6 | 7 8", "0 4 8 | 1 5 | 2 6 | 3 7"),
    (10, 4, "0 1 2 | 3 4 5 | 6 7 | 8 9", "0 4 8 | 1 5 9 | 2 6 | 3 7"),
]


@pytest.mark.parametrize(("n", "c", "averagely", "by_circle"), EDGES)
def test_shares_that_do_not_divide(n, c, averagely, by_circle):
    ids = [f"c{i}" for i in range(c)]
    for strategy, expected in ((Averagely(), averagely), (AveragelyByCircle(), by_circle)):
        shown = [text.replace("a", "") or "-" for text in answers(strategy, queues(a=n), ids)]
        assert " | ".join(shown) == expected


RING = """
04defcf4 C3-6  083739d8 C3-4  0dff5912 C2-8  0ecf53a1 C1-2  276e8ba1 C2-5  2b57a63a C2-3  2cbf40b3 C1-1  3a80f084 C3-2
52df8777 C2-7  54dbea08 C3-5  579a4d8b C2-1  588ed990 C2-6  5bde7f04 C1-6  608277bc C1-3  6ceaf30e C3-7  7beb1591 C3-0
8524d991 C2-0  888c3db6 C3-9  8e085d2c C2-9  92f8505c C1-7  a6c3f995 C1-4  b46bee57 C1-9  cc9ddd3d C2-2  d7455d03 C1-8
d93992bd C3-3  da1cf68a C3-1  e483b93b C1-5  e9eb45c3 C1-0  f597d3aa C2-4  f754bcb4 C3-8
"""


def test_the_ring_of_three_members():
    ring = RING.split()
    placed = {f"C{c}-{k}": position(f"{client_id}-{k}") for c, client_id in enumerate(IDS, 1) for k in range(10)}
    assert placed == {name: int(at, 16) for at, name in zip(ring[::2], ring[1::2], strict=True)}
    assert position("192.168.0.3@1003#33-6") == 81722612


@pytest.mark.parametrize(
    ("queue_id", "at"),
    list(enumerate([1987926524, 4291349817, 853506239, 3652785994, 3819253357, 3264541832, 2650622136, 4171190878])),
)
def test_where_queues_stand_on_the_ring(queue_id, at):
    queue = MessageQueue("TopicTest", "broker-a", queue_id)
    assert str(queue) == f"MessageQueue [topic=TopicTest, brokerName=broker-a, queueId={queue_id}]"
    assert position(str(queue)) == at
