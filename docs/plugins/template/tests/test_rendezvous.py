"""The strategy rendezvous keeps the contract of allocation strategies."""

import pytest

from gantrymq.errors import ConfigError
from gantrymq.model.queue import MessageQueue
from gantrymq_example.rendezvous import Rendezvous
from gantrymq_testing import AllocationContract

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(64)]
MEMBERS = ["c1", "c2", "c3", "c4"]


class TestRendezvousContract(AllocationContract):
    make_strategy = Rendezvous
    spread = None
    moves_only_what_it_must = True


def test_shares_are_even_on_the_average():
    shares = [len(Rendezvous().allocate("G", member, QUEUES, MEMBERS)) for member in MEMBERS]
    assert sum(shares) == len(QUEUES)
    assert min(shares) > len(QUEUES) / len(MEMBERS) / 2


def test_the_salt_gives_another_distribution():
    plain, salted = Rendezvous(), Rendezvous({"salt": "x"})
    assert plain.allocate("G", "c1", QUEUES, MEMBERS) != salted.allocate("G", "c1", QUEUES, MEMBERS)


def test_the_answer_stays_from_version_to_version():
    assert [queue.queue_id for queue in Rendezvous().allocate("G", "c1", QUEUES[:16], MEMBERS)] == [4, 5, 10]


def test_an_unknown_setting_is_refused():
    with pytest.raises(ConfigError, match="knows the setting salt only, not salz"):
        Rendezvous({"salz": "x"})
