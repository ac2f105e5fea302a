"""Timer deliveries during store failures: each exactly once, also after a restart."""

import pytest

pytest.importorskip("gantrymq_storage_faults")

from timer_rig import Rig

from gantrymq.errors import StoreError
from gantrymq.interfaces import StoreMessage
from gantrymq.model import properties as props
from gantrymq_schedule.timer.delivery import TimerDelivery
from gantrymq_storage_faults.machine import Machine
from gantrymq_testing.simulated import simulate


def timed(unique_id):
    own = {"UNIQ_KEY": unique_id, "TIMER_OUT_MS": "1000", "TIMER_DEQUEUE_MS": "2000"}
    return StoreMessage("A", 0, b"x", props.encode(own))


class Failing:
    """A broker whose puts fail a given number of times, before or after the message is stored."""

    def __init__(self, broker):
        self.inner, self.store, self.world = broker, broker.store, broker.world
        self.store_capabilities = broker.store_capabilities
        self.topics, self.messages = broker.topics, self
        self.failures = []

    async def put_all(self, messages, *, skip_interceptors=False):
        failure = self.failures.pop(0) if self.failures else ""
        if failure == "before":
            raise StoreError("nothing stored")
        results = await self.inner.put_all(messages, skip_interceptors=skip_interceptors)
        if failure == "after":
            raise StoreError("not confirmed")
        return results


def run(work):
    async def main(world):
        rig = Rig(world, Machine(world.files), 1)
        await rig.start()
        broker = Failing(rig.timers.broker)
        await work(rig, TimerDelivery(broker), broker)
        await rig.timers.stop()
        return [unique_id for unique_id, _ in rig.delivered()]

    return simulate(1, main, limit_s=3600)


def test_a_put_that_fails_does_not_forget_what_the_last_life_delivered():
    async def work(rig, delivery, broker):
        await delivery.put([timed("1"), timed("2")], 0)
        again = TimerDelivery(broker)
        await again.recall_from(0)
        broker.failures.append("before")
        await again.put([timed("3")], 0)
        await again.put([timed("1"), timed("2"), timed("4")], 0)

    assert run(work) == ["1", "2", "3", "4"]


def test_nothing_is_put_again_before_the_look_at_the_log_succeeded():
    async def work(rig, delivery, broker):
        broker.failures.append("after")
        flushed, failures = rig.log.flushed, [StoreError("the disk")]

        async def fails_once(log_offset):
            if failures:
                raise failures.pop()
            await flushed(log_offset)

        rig.log.flushed = fails_once
        await delivery.put([timed("1"), timed("2")], 0)

    assert run(work) == ["1", "2"]


@pytest.mark.parametrize("deleted_at", [99, 100, 200])
def test_messages_whose_topic_is_deleted_once_they_are_made_are_left_out(deleted_at):
    async def work(rig, delivery, broker):
        rig.log.dropped_at = lambda topic: deleted_at if broker.failures else 0
        await delivery.put([timed("1")], 100)
        broker.failures.append("before")
        await delivery.put([timed("2")], 100)

    assert run(work) == (["1", "2"] if deleted_at < 100 else ["1"])
