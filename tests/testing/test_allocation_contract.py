"""The allocation contract passes a correct strategy and detects each kind of fault."""

import pytest

from gantrymq_testing import AllocationContract


class InTurns:
    """The queues dealt out one by one."""

    name = "IN_TURNS"

    def allocate(self, group, client_id, queues, client_ids):
        if client_id not in client_ids:
            return []
        return list(queues[client_ids.index(client_id) :: len(client_ids)])


class Examples(AllocationContract):
    make_strategy = InTurns


class TestGoodStrategy(Examples):
    pass


class First(InTurns):
    """Leaves the last queue without a reader."""

    def allocate(self, group, client_id, queues, client_ids):
        return super().allocate(group, client_id, queues[:-1], client_ids)


class Greedy(InTurns):
    """Gives the first queue to every member."""

    def allocate(self, group, client_id, queues, client_ids):
        share = super().allocate(group, client_id, queues, client_ids)
        return sorted({*share, *queues[:1]}) if client_id in client_ids else []


class Trusting(InTurns):
    """Treats an unknown member as the first member."""

    def allocate(self, group, client_id, queues, client_ids):
        client_id = client_id if client_id in client_ids else next(iter(client_ids), "")
        return super().allocate(group, client_id, queues, client_ids)


class Backwards(InTurns):
    """Turns the order of the queues around."""

    def allocate(self, group, client_id, queues, client_ids):
        return super().allocate(group, client_id, queues, client_ids)[::-1]


class Counting(InTurns):
    """Depends on the number of calls."""

    asked = 0

    def allocate(self, group, client_id, queues, client_ids):
        self.asked += 1
        turned = self.asked % (len(client_ids) or 1)
        return super().allocate(group, client_id, queues, [*client_ids[turned:], *client_ids[:turned]])


class Named(InTurns):
    """Each instance gives different results."""

    made = 0

    def __init__(self):
        Named.made += 1
        self.turned = Named.made

    def allocate(self, group, client_id, queues, client_ids):
        turned = self.turned % (len(client_ids) or 1)
        return super().allocate(group, client_id, queues, [*client_ids[turned:], *client_ids[:turned]])


class Lopsided(InTurns):
    """The first member reads everything."""

    def allocate(self, group, client_id, queues, client_ids):
        return list(queues) if client_ids and client_id == client_ids[0] else []


class Inventive(InTurns):
    """Returns a queue that does not exist."""

    def allocate(self, group, client_id, queues, client_ids):
        share = super().allocate(group, client_id, queues, client_ids)
        return [queue._replace(queue_id=queue.queue_id + 1) for queue in share]


class Doubling(InTurns):
    """Names every queue twice."""

    def allocate(self, group, client_id, queues, client_ids):
        return [queue for queue in super().allocate(group, client_id, queues, client_ids) for _ in range(2)]


class Consuming(InTurns):
    """Modifies the lists that are passed to it."""

    def allocate(self, group, client_id, queues, client_ids):
        share = super().allocate(group, client_id, queues, client_ids)
        if isinstance(queues, list):
            queues.clear()
        return share


class Remembering(InTurns):
    """Hands out its own memory."""

    def __init__(self):
        self.answers = {}

    def allocate(self, group, client_id, queues, client_ids):
        key = (client_id, *queues, *client_ids)
        return self.answers.setdefault(key, super().allocate(group, client_id, queues, client_ids))


class Dividing(InTurns):
    """Falls over an empty group."""

    def allocate(self, group, client_id, queues, client_ids):
        assert len(queues) % len(client_ids) >= 0
        return super().allocate(group, client_id, queues, client_ids)


WRONG = [
    (First, "test_every_queue_has_one_reader"),
    (Greedy, "test_every_queue_has_one_reader"),
    (Trusting, "test_a_stranger_gets_nothing"),
    (Backwards, "test_queues_come_in_the_order_given"),
    (Counting, "test_what_was_asked_before_changes_nothing"),
    (Named, "test_members_that_compute_on_their_own_agree"),
    (Lopsided, "test_shares_are_even"),
    (Inventive, "test_no_member_gets_a_queue_that_is_not_there_or_one_twice"),
    (Doubling, "test_no_member_gets_a_queue_that_is_not_there_or_one_twice"),
    (Consuming, "test_takes_any_sequence_and_leaves_it_as_it_is"),
    (Remembering, "test_answers_with_a_list_of_its_own"),
    (Dividing, "test_nothing_comes_of_no_queues_and_of_no_members"),
]


@pytest.mark.parametrize(("wrong", "test"), WRONG, ids=lambda value: getattr(value, "__name__", None))
def test_a_wrong_strategy_is_caught(wrong, test):
    contract = type("Contract", (Examples,), {"make_strategy": wrong})()
    with pytest.raises((AssertionError, ZeroDivisionError)):
        getattr(contract, test)(wrong())


def test_a_strategy_that_shuffles_others_is_caught_where_it_claims_not_to():
    contract = type("Contract", (Examples,), {"moves_only_what_it_must": True})()
    with pytest.raises(AssertionError):
        contract.test_a_member_that_leaves_or_joins_moves_no_queue_of_others(InTurns())


def test_what_is_not_promised_is_not_asked_for():
    lowered = {"make_strategy": Lopsided, "spread": None}
    contract = type("Contract", (Examples,), lowered)()
    contract.test_shares_are_even(Lopsided())
    contract.test_every_queue_has_one_reader(Lopsided())
