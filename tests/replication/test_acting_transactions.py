"""The end of a transaction at a master that returned: what its acting master gave away, and what it knows itself."""

import pytest
from acting_groups import simulate_group

from gantrymq.errors import IllegalOperation
from gantrymq.interfaces import EndTransaction, Outcome

COMMIT, ROLLBACK = 8, 12


def ending(sent, number, decision):
    result = sent[number].results[0]
    return EndTransaction("p", result.queue_offset, result.log_offset, decision, False, f"h{number}", None)


def test_the_end_of_a_transaction_that_was_given_to_another_broker_says_so():
    async def main(group):
        sent = [
            await group.master.send(b"half", UNIQ_KEY=f"h{number}", TRAN_MSG="true", PGROUP="p") for number in range(4)
        ]

        async def decide(number, decision):
            return await group.master.cluster.broker.messages.end_transaction(ending(sent, number, decision))

        async def end(number, decision):
            return await group.master.process.run(decide(number, decision))

        assert await end(1, ROLLBACK) is Outcome.ROLLED_BACK
        await group.copied()
        await group.clock.sleep(3)
        group.master.process.kill()
        await group.clock.sleep(20)
        await group.master.start()
        await group.copied()
        for number in (0, 3):
            with pytest.raises(IllegalOperation, match="another broker") as refused:
                await end(number, COMMIT)
            assert refused.value.response_code == 604
        with pytest.raises(IllegalOperation, match="was rolled back"):
            await end(1, COMMIT)
        assert await group.master.received() == []

    simulate_group(main, transactionCheckInterval=2000, transactionTimeOut=3000)
