"""A strategy that rounds every share up, so that the queue between two shares has two readers."""

from gantrymq_testing import AllocationContract


class RoundedUp:
    name = "rounded up"

    def allocate(self, group, client_id, queues, client_ids):
        if client_id not in client_ids:
            return []
        index, members = client_ids.index(client_id), len(client_ids)
        first, last = index * len(queues) // members, -(-(index + 1) * len(queues) // members)
        return list(queues[first:last])


class TestRoundedUp(AllocationContract):
    make_strategy = RoundedUp
