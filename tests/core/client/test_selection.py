import random

from gantrymq.client.sending.selection import RoundRobin
from gantrymq.model.queue import MessageQueue

QUEUES = [MessageQueue("T", name, i) for name in "ab" for i in range(2)]


def test_turns_go_round_and_round():
    turns = RoundRobin(random.Random(3))
    chosen = [turns.choose("T", QUEUES) for _ in range(8)]
    assert chosen[:4] == chosen[4:]
    assert sorted(chosen[:4]) == QUEUES


def test_topics_begin_at_places_of_their_own():
    begun = {RoundRobin(random.Random(seed)).choose("T", QUEUES) for seed in range(40)}
    assert begun == set(QUEUES)


def test_failed_broker_is_avoided():
    turns = RoundRobin(random.Random(3))
    assert {turns.choose("T", QUEUES, {"a"}).broker_name for _ in range(8)} == {"b"}


def test_all_brokers_that_failed_are_avoided():
    queues = [MessageQueue("T", name, i) for name in "abc" for i in range(2)]
    turns = RoundRobin(random.Random(3))
    assert {turns.choose("T", queues, {"a", "b"}).broker_name for _ in range(8)} == {"c"}


def test_only_broker_is_taken_although_it_failed():
    turns = RoundRobin(random.Random(3))
    assert turns.choose("T", QUEUES[:2], {"a"}).broker_name == "a"


def test_fewer_queues_than_before_are_no_trouble():
    turns = RoundRobin(random.Random(3))
    for _ in range(7):
        turns.choose("T", QUEUES)
    assert turns.choose("T", QUEUES[:1]) == QUEUES[0]
