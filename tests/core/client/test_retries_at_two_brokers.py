"""Every kind of send with every outcome of its first attempt: whether there is a second one, and at which broker."""

import asyncio

import pytest

from gantrymq.client import Batching, Client, SendFailed
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, ConnectionLost
from gantrymq.model.queue import MessageQueue
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command

SEND, BATCH = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE
MESSAGES = [Message("T", b"one"), Message("T", b"two")]
OPTIONS = {"attempt_timeout_s": 0.5}
PASSING = [1, 2, 16, 17, 204, 205]
NOT_READY = [14, 1500]


async def single(producer, kind, queue=None):
    await getattr(producer, kind)(MESSAGES[0], queue=queue)


async def gathered(producer, kind, queue=None):
    await asyncio.gather(*(getattr(producer, kind)(message, queue=queue) for message in MESSAGES))


async def batch(producer, kind, queue=None):
    await getattr(producer, kind)(MESSAGES, queue)


# name: the call, its arguments, whether results are awaited as in Java's synchronous sends
KINDS = {
    "send": (single, "send", True),
    "send_soon": (single, "send_soon", True),
    "send_async": (single, "send_async", False),
    "send_batch": (batch, "send_batch", True),
    "send_batches": (batch, "send_batches", True),
    "gathered send": (gathered, "send", True),
    "gathered send_async": (gathered, "send_async", False),
}


class FirstFails:
    """Makes the first send to any broker end in *outcome*, and stores the others."""

    def __init__(self, c, outcome):
        self.tried = []
        for name, peer in c.brokers.items():
            for code in (SEND, BATCH):
                peer.answers[code] = self._answer(name, peer, peer.answers[code], outcome)

    def _answer(self, name, peer, stored, outcome):
        def answer(request):
            self.tried.append(name)
            if len(self.tried) > 1:
                return stored(request)
            if outcome == "lost":
                peer.connections[-1].abort()
            return Command(outcome, remark="no") if isinstance(outcome, int) else None

        return answer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("outcome", [*PASSING, *NOT_READY, 13, 29, "lost", "silent"])
def test_a_failed_attempt(simulate, cluster, kind, outcome):
    begin, name, is_waited_for = KINDS[kind]
    options = {**OPTIONS, **({"batching": Batching(max_wait_ms=1)} if begin is gathered else {})}
    is_again = outcome in (*NOT_READY, "lost", "silent") or (is_waited_for and outcome in PASSING)

    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            await producer.queues("T")
            first = FirstFails(c, outcome)
            if is_again:
                await begin(producer, name)
                assert len(first.tried) == 2
                assert outcome == 1500 or set(first.tried) == {"a", "b"}  # first a new connection to the same broker
            elif outcome == 13 and begin is gathered:  # each separately, if valid
                await begin(producer, name)
            else:
                with pytest.raises(BrokerRefused) as refused:
                    await begin(producer, name)
                assert (refused.value.response_code, len(first.tried)) == (outcome, 1)

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("outcome", "error"),
    [(2, BrokerRefused), (13, BrokerRefused), ("lost", ConnectionLost), ("silent", CallTimeout), (14, None)],
)
def test_a_failed_attempt_at_a_queue_that_the_application_chose(simulate, cluster, kind, outcome, error):
    begin, name, _ = KINDS[kind]
    options = {**OPTIONS, **({"batching": Batching(max_wait_ms=1)} if begin is gathered else {})}

    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            await producer.queues("T")
            first = FirstFails(c, outcome)
            queue = MessageQueue("T", "a", 2)
            if error is None or (outcome == 13 and begin is gathered):
                await begin(producer, name, queue)
            else:
                with pytest.raises(error):
                    await begin(producer, name, queue)
                assert len(first.tried) == 1
            assert set(first.tried) == {"a"}

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("retries", "attempts"), [(0, 1), (1, 2), (4, 5)])
def test_so_many_attempts_and_then_the_last_error(simulate, cluster, kind, retries, attempts):
    begin, name, _ = KINDS[kind]
    options = {"retries": retries, "async_retries": retries, "attempt_timeout_s": 0.2}
    if begin is gathered:
        options["batching"] = Batching(max_wait_ms=1)

    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            await producer.queues("T")
            for peer in c.brokers.values():
                peer.answers |= {SEND: None, BATCH: None}
            with pytest.raises(SendFailed) as failed:
                await begin(producer, name)
            assert (failed.value.response_code, len(failed.value.brokers)) == (10002, attempts)
            assert len(c.sends()) == attempts
            assert all(one != other for one, other in zip(failed.value.brokers, failed.value.brokers[1:], strict=False))

    simulate(work)


@pytest.mark.parametrize("kind", KINDS)
def test_a_broker_that_is_away_uses_up_no_attempt(simulate, cluster, kind):
    begin, name, _ = KINDS[kind]
    options = {"retries": 0, "async_retries": 0, **({"batching": True} if begin is gathered else {})}

    async def work(world):
        async with (
            cluster(world) as c,
            Client(c.namesrv, world=world) as client,
            client.producer("P", **options) as producer,
        ):
            await producer.queues("T")
            await c.brokers["a"].stop()
            for _ in range(4):
                await begin(producer, name)
            assert set(c.sends()) == {"b"}
            await c.brokers["b"].stop()
            with pytest.raises(ConnectionError) as failed:
                await begin(producer, name)
            assert isinstance(failed.value, ClientError)

    simulate(work)


def test_oneway_has_one_attempt_at_whichever_broker(simulate, cluster):
    async def work(world):
        async with cluster(world) as c, Client(c.namesrv, world=world) as client, client.producer("P") as producer:
            first = FirstFails(c, 2)
            await producer.send_oneway(MESSAGES[0])
            await world.clock.sleep(5)
            assert len(first.tried) == 1

    simulate(work)
