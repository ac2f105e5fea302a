"""Functions of the application that raise any BaseException, or return awaitables, for every parameter of the client.

With an in-memory broker, on a virtual clock. Functions in threads are tested in `test_sync`.
"""

import asyncio
import contextlib
import functools

import pytest

from gantrymq.client import Client, ClientError, InvalidParameter, Message, TransactionState, idempotent
from gantrymq.client.idempotency.sqlite_records import SqliteRecords
from gantrymq.client.sync import idempotent as sync_idempotent
from gantrymq_testing.simulation import simulate_cluster

TOPIC = "Orders"
COUNT = 12
OFTEN = {"transactionCheckInterval": 5000, "transactionTimeOut": 6000}


class Odd(BaseException):
    """A BaseException that is neither an Exception nor built in."""


async def inner_task_cancelled():
    task = asyncio.ensure_future(asyncio.sleep(1000))
    await asyncio.sleep(0)
    task.cancel()
    await task


async def cancelled():
    raise asyncio.CancelledError


async def odd():
    raise Odd


async def generator_exit():
    raise GeneratorExit


async def stop_iteration():
    next(iter(()))


async def own_task_cancelled():
    asyncio.current_task().cancel()
    await asyncio.sleep(0)


async def own_task_cancelled_later():
    asyncio.current_task().cancel()  # raised at the next await, after the handler returned


FAILURES = [inner_task_cancelled, cancelled, odd, generator_exit, stop_iteration, own_task_cancelled]
MODES = {
    "one": {},
    "several": {"concurrency": 4},
    "batches": {"batch_size": 3},
    "orderly": {"orderly": True},
    "broadcasting": {"broadcasting": True},
}


def client_of(cluster, **more):
    return Client(cluster.namesrv, world=cluster.world, **more)


async def sent(cluster, count=COUNT, topic=TOPIC):
    await cluster.create_topic(topic, 2)
    for number in range(count):
        await cluster.send(topic, b"%d" % number)


@contextlib.asynccontextmanager
async def running(work):
    """Run *work*, which must not end before the block does."""
    task = asyncio.ensure_future(work)
    try:
        yield task
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait([task])


def consuming(client, handle, **options):
    """`running` a consumer that gives its messages to *handle*."""
    return running(client.consumer("billing", TOPIC, consume_from="first").run(handle, **options))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("fails", FAILURES, ids=lambda fails: fails.__name__)
def test_a_handler_that_fails_in_any_way_fails_for_its_message_alone(mode, fails, caplog):
    async def work(cluster):
        await sent(cluster)
        tries, done = {}, asyncio.Event()

        async def handle(found):
            for message in found if isinstance(found, list) else [found]:
                tries[message.body] = tries.get(message.body, 0) + 1
            if message.reconsume_times == 0 and tries[message.body] == 1:
                await fails()
            if len(tries) == COUNT and (mode == "broadcasting" or min(tries.values()) > 1):
                done.set()

        options = dict(MODES[mode])
        settings = {name: options.pop(name) for name in ("orderly", "broadcasting") if name in options}
        async with client_of(cluster) as client:
            consumer = client.consumer("billing", TOPIC, consume_from="first", suspend_s=0.1, **settings)
            run = consumer.run(handle, **{"concurrency": 1, **options})
            if mode == "broadcasting":  # failed messages are not redelivered
                async with running(run):
                    await cluster.world.clock.sleep(30)
                    assert len(tries) == COUNT
                return
            async with running(run):
                await done.wait()
                await cluster.world.clock.sleep(1)
        async with client_of(cluster) as client:  # all messages reported as consumed are consumed
            consumer = client.consumer("billing", TOPIC)
            async with running(consumer.run(handle)):
                before = dict(tries)
                await cluster.world.clock.sleep(1)
                assert tries == before

    simulate_cluster(work, limit_s=4000)
    lines = [record.getMessage() for record in caplog.records if "a handler of billing raised" in record.getMessage()]
    assert len(lines) >= (COUNT // 3 if mode == "batches" else COUNT)


def test_a_handler_that_cancels_its_own_task_and_returns_ends_no_worker(caplog):
    async def work(cluster):
        await sent(cluster)
        seen = []

        async def handle(message):
            seen.append(message.body)
            await own_task_cancelled_later()

        async with client_of(cluster) as client, consuming(client, handle, concurrency=2):
            await cluster.world.clock.sleep(10)
        assert len(set(seen)) == COUNT

    simulate_cluster(work, limit_s=4000)
    assert "a handler of billing returned after it cancelled its own task" in caplog.text


def test_a_run_that_is_cancelled_ends_though_handlers_keep_the_cancellation_to_themselves():
    async def work(cluster):
        await sent(cluster)
        seen = []

        async def handle(message):
            seen.append(message.body)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        async with client_of(cluster) as client:
            run = asyncio.ensure_future(
                client.consumer("billing", TOPIC, consume_from="first").run(handle, concurrency=2)
            )
            await cluster.world.clock.sleep(5)
            run.cancel()
            await asyncio.wait([run])
            assert run.cancelled()
            assert len(seen) == 2

    simulate_cluster(work, limit_s=4000)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("mode", [{}, {"batch_size": 2}])
def test_what_ends_a_program_ends_the_run_with_that_error_and_loses_no_message(kind, mode):
    async def work(cluster):
        await sent(cluster, 3)
        under_way = []

        async def handle(_):
            under_way.append(True)
            if len(under_way) == 2:
                raise kind("enough")
            await asyncio.Event().wait()

        async with client_of(cluster) as client:
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            with pytest.raises(kind, match="enough"):
                await consumer.run(handle, concurrency=2, **mode)
            assert consumer.is_started
        found = []
        async with client_of(cluster) as client:
            async for message in client.consumer("billing", TOPIC):
                found.append(message.body)
                if len(found) == 3:
                    break
        assert sorted(found) == [b"0", b"1", b"2"]

    simulate_cluster(work, limit_s=4000)


async def later(seen, message):
    await asyncio.sleep(0)
    seen.append(message.body)


class Object:
    def __init__(self, seen):
        self._seen = seen

    async def __call__(self, message):
        await later(self._seen, message)


async def twice(seen, message):
    return asyncio.ensure_future(later(seen, message))


RETURNING = {
    "partial": lambda seen: functools.partial(later, seen),
    "object": Object,
    "partial of an object": lambda seen: functools.partial(Object(seen)),
    "a task": lambda seen: functools.partial(twice, seen),
}


@pytest.mark.parametrize("kind", RETURNING)
def test_a_message_is_consumed_when_what_the_handler_returned_is_done(kind):
    async def work(cluster):
        await sent(cluster)
        seen = []
        async with client_of(cluster) as client, consuming(client, RETURNING[kind](seen)):
            await cluster.world.clock.sleep(5)
        assert sorted(seen, key=int) == [b"%d" % number for number in range(COUNT)]

    simulate_cluster(work, limit_s=4000)


def test_a_message_is_not_consumed_when_what_the_handler_returned_fails():
    async def work(cluster):
        await sent(cluster, 1)
        tries = []

        async def failing(message):
            tries.append(message.reconsume_times)
            if len(tries) == 1:
                raise ValueError

        async def handle(message):
            return failing(message)

        async with client_of(cluster) as client, consuming(client, handle):
            await cluster.world.clock.sleep(30)
        assert tries == [0, 1]

    simulate_cluster(work, limit_s=4000)


def generating(_):
    yield


async def generating_async(_):
    yield


def test_what_cannot_be_a_handler_is_refused_before_a_message_is_taken():
    async def work(cluster):
        await sent(cluster, 1)
        async with client_of(cluster) as client:
            consumer = client.consumer("billing", TOPIC, consume_from="first")
            for wrong in (generating, generating_async, functools.partial(generating), None, 5):
                with pytest.raises(InvalidParameter, match="^the handler of billing is "):
                    await consumer.run(wrong)
            for option in ({"on_rebalance": generating}, {"on_rebalance": 5}):
                with pytest.raises(InvalidParameter, match="^on_rebalance of other is "):
                    client.consumer("other", TOPIC, **option)
                with pytest.raises(InvalidParameter, match="^on_rebalance of other is "):
                    client.lite_pull("other", TOPIC, **option)
            with pytest.raises(InvalidParameter, match="^the check of shop is "):
                client.transaction_producer("shop", generating)
            with pytest.raises(InvalidParameter, match="^the selector is async; expected a plain function"):
                client.producer("shop", selector=cancelled)

    simulate_cluster(work, limit_s=4000)


@pytest.mark.parametrize("fails", [cancelled, odd], ids=lambda fails: fails.__name__)
@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("kind", ["consumer", "lite_pull"])
def test_queues_are_shared_out_though_on_rebalance_fails(kind, is_async, fails, caplog):
    async def work(cluster):
        await sent(cluster)
        told = []

        async def later(taken, gone):
            told.append((len(taken), len(gone)))
            await fails()

        def at_once(taken, gone):
            told.append((len(taken), len(gone)))
            raise Odd if fails is odd else asyncio.CancelledError

        async with client_of(cluster) as client, client_of(cluster, instance_name="other") as other:
            options = {"consume_from": "first", "on_rebalance": later if is_async else at_once}
            member = getattr(client, kind)("billing", TOPIC, **options)
            await cluster.world.clock.sleep(1)
            getattr(other, kind)("billing", TOPIC)
            await cluster.world.clock.sleep(60)
            assert sum(queue.topic == TOPIC for queue in member.assignment) == 1
        assert len(told) > 1

    simulate_cluster(work, limit_s=4000)
    assert "on_rebalance of billing raised" in caplog.text


def test_an_async_on_rebalance_is_awaited_and_may_close_the_consumer():
    async def work(cluster):
        await sent(cluster)
        told = []

        async def on_rebalance(taken, gone):
            await cluster.world.clock.sleep(0.1)
            told.append(len(taken))
            await member.close()

        async with client_of(cluster) as client:
            member = client.consumer("billing", TOPIC, on_rebalance=on_rebalance)
            await cluster.world.clock.sleep(5)
            assert told and not member.is_started

    simulate_cluster(work, limit_s=4000)


def test_an_allocation_strategy_that_fails_is_asked_again(caplog):
    async def work(cluster):
        await sent(cluster)
        async with client_of(cluster) as client:
            member = client.consumer("billing", TOPIC)
            real, failures = member._run.rebalancer.strategy, [ValueError, asyncio.CancelledError, StopIteration]

            class Failing:
                def allocate(self, *args):
                    if failures:
                        raise failures.pop()
                    return real.allocate(*args)

            member._run.rebalancer.strategy = Failing()
            await cluster.world.clock.sleep(60)
            assert sum(queue.topic == TOPIC for queue in member.assignment) == 2

    simulate_cluster(work, limit_s=4000)
    assert "rebalance of billing, topic" in caplog.text


@pytest.mark.parametrize("fails", [cancelled, odd], ids=lambda fails: fails.__name__)
def test_changed_queues_are_told_though_a_listener_fails(fails, caplog):
    async def work(cluster):
        await sent(cluster)
        told = []

        async def listener(topic, queues):
            told.append(len(queues))
            await fails()

        async with client_of(cluster) as client:
            member = client.lite_pull("billing")
            await member.on_queues_changed(TOPIC, listener)
            for queues in (3, 4):
                await cluster.create_topic(TOPIC, queues)
                await cluster.world.clock.sleep(90)
            with pytest.raises(InvalidParameter, match=f"the listener of {TOPIC} is 5"):
                await member.on_queues_changed(TOPIC, 5)
        assert told == [3, 4]

    simulate_cluster(work, limit_s=4000)
    assert "a listener of billing raised" in caplog.text


class FailingHook:
    def __init__(self, kind):
        self._kind = kind

    def _raise(self, _):
        raise self._kind

    before_send = after_send = before_consume = after_consume = end_transaction = _raise


@pytest.mark.parametrize("kind", [asyncio.CancelledError, Odd, StopIteration])
def test_a_hook_that_fails_in_any_way_changes_nothing(kind):
    async def work(cluster):
        await sent(cluster)
        seen = []

        async def handle(message):
            seen.append(message.body)

        async with client_of(cluster, hooks=[FailingHook(kind)]) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            assert (await producer.send(Message(TOPIC, b"100"))).ok
            assert (await producer.send_soon(Message(TOPIC, b"101"))).ok
            async with producer.transaction(Message(TOPIC, b"102")):
                pass
            async with running(client.consumer("billing", TOPIC, consume_from="first").run(handle, concurrency=1)):
                await cluster.world.clock.sleep(5)
            popped = []
            async for message in client.pop_consumer("packing", TOPIC, consume_from="first", poll_s=1):
                popped.append(message.body)
                if len(popped) == COUNT + 3:
                    break
        assert len(set(seen)) == len(set(popped)) == COUNT + 3

    simulate_cluster(work, limit_s=4000)


class AsyncHook:
    async def before_send(self, context):
        """Would never run."""

    async def after_send(self, context):
        """Would never run."""


class ReturningHook:
    def before_send(self, context):
        return AsyncHook().before_send(context)

    def after_send(self, context):
        """Do nothing."""


def test_async_hooks_are_refused_and_one_that_returns_a_coroutine_is_logged_once(caplog):
    async def work(cluster):
        await sent(cluster)
        with pytest.raises(InvalidParameter, match="before_send of AsyncHook is async; expected a plain function"):
            client_of(cluster, hooks=[AsyncHook()])
        async with client_of(cluster, hooks=[ReturningHook()]) as client:
            for _ in range(3):
                assert (await client.producer(f"shop{_}").send(Message(TOPIC, b"x"))).ok

    simulate_cluster(work, limit_s=4000)
    assert "ReturningHook.before_send, a hook of shop0, raised" in caplog.text
    assert "a hook returned coroutine, which is not awaited here" in caplog.text


@pytest.mark.parametrize("batching", [False, True])
def test_a_selector_that_fails_in_any_way_fails_its_send(batching):
    async def work(cluster):
        await sent(cluster)

        def raising(kind):
            def select(queues, message):
                raise kind

            return select

        async with client_of(cluster) as client:
            producer = client.producer("shop", batching=batching)
            for known in (False, True):
                if known:
                    await producer.send(Message(TOPIC, b"x"))
                for kind in (asyncio.CancelledError, StopIteration):
                    with pytest.raises(RuntimeError, match=f"select raised {kind.__name__}"):
                        await producer.send(Message(TOPIC, b"x"), raising(kind))
                    with pytest.raises(RuntimeError, match=f"select raised {kind.__name__}"):
                        await producer.send_soon(Message(TOPIC, b"x"), raising(kind))
                with pytest.raises(InvalidParameter, match="the selector of a message to Orders returned coroutine"):
                    await producer.send(Message(TOPIC, b"x"), lambda *_: cancelled())
                with pytest.raises(InvalidParameter, match="the queue of a message to Orders is 5; expected"):
                    await producer.send(Message(TOPIC, b"x"), 5)

    simulate_cluster(work, limit_s=4000)


@pytest.mark.parametrize("batching", [False, True])
def test_an_async_callback_of_a_send_is_awaited_before_close_ends(batching, caplog):
    async def work(cluster):
        await sent(cluster)
        told = []

        async def callback(result, error):
            await cluster.world.clock.sleep(1)
            told.append(result.ok)
            raise asyncio.CancelledError

        async with client_of(cluster) as client:
            producer = client.producer("shop", batching=batching)
            producer.send_async(Message(TOPIC, b"x"), callback)
            producer.send_async(Message(TOPIC, b"x"), lambda result, error: callback(result, error))
        assert told == [True, True]

    simulate_cluster(work, limit_s=4000)
    assert caplog.text.count("the callback of a send of shop raised") == 2


@pytest.mark.parametrize("fails", [inner_task_cancelled, odd, generator_exit], ids=lambda fails: fails.__name__)
def test_a_check_that_fails_in_any_way_is_asked_again(fails, caplog):
    async def work(cluster):
        await sent(cluster, 0)
        asked = []

        async def check(message):
            asked.append(message.message_id)
            if len(asked) == 1:
                await fails()
            return TransactionState.COMMIT

        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", lambda message: check(message))
            async with producer.transaction(Message(TOPIC, b"later")) as transaction:
                transaction.state = TransactionState.UNKNOWN
            await cluster.world.clock.sleep(60)
        assert len(asked) == 2
        async with client_of(cluster) as client:
            async for message in client.consumer("billing", TOPIC, consume_from="first"):
                assert message.body == b"later"
                break

    simulate_cluster(work, settings=OFTEN, limit_s=4000)
    assert "checking transaction" in caplog.text


@pytest.mark.parametrize("kind", [asyncio.CancelledError, Odd, GeneratorExit, StopIteration, SystemExit])
def test_a_transaction_is_rolled_back_whatever_its_block_raises(kind):
    async def work(cluster):
        await sent(cluster, 0)
        async with client_of(cluster) as client:
            producer = client.transaction_producer("shop", lambda _: TransactionState.COMMIT)
            with pytest.raises(kind):
                async with producer.transaction(Message(TOPIC, b"gone")) as transaction:
                    raise kind
            assert transaction.state is TransactionState.ROLLBACK

    simulate_cluster(work, limit_s=4000)


# --- once for each message --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [inner_task_cancelled, odd], ids=lambda fails: fails.__name__)
def test_a_change_that_fails_in_any_way_is_rolled_back_and_made_later(fails, tmp_path):
    async def work(cluster):
        await sent(cluster)
        with SqliteRecords(tmp_path / "shop.db") as store:
            once, seen = idempotent(store, "billing", world=cluster.world), []

            @once
            async def handle(message, connection):
                seen.append(message.body)
                if message.reconsume_times == 0:
                    await fails()

            async with client_of(cluster) as client, consuming(client, handle):
                await cluster.world.clock.sleep(60)
            assert (once.consumed, len(seen)) == (COUNT, 2 * COUNT)

    simulate_cluster(work, limit_s=4000)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_change_that_a_handler_returns_and_does_not_await_is_not_taken_for_done(is_plain, tmp_path, caplog):
    async def work(cluster):
        await sent(cluster, 2)
        with SqliteRecords(tmp_path / "shop.db") as store:
            once, seen = idempotent(store, "billing", world=cluster.world), []

            async def change(message, connection):
                await asyncio.sleep(0)
                seen.append(message.body)

            async def returning(message, connection):
                return change(message, connection)

            handle = once((lambda message, connection: change(message, connection)) if is_plain else returning)
            async with client_of(cluster) as client, consuming(client, handle):
                await cluster.world.clock.sleep(5)
            assert (once.consumed, len(seen)) == ((0, 0) if is_plain else (2, 2))

    simulate_cluster(work, limit_s=4000)
    assert ("the handler of billing returned coroutine, which is not awaited here" in caplog.text) is is_plain


def test_functions_that_cannot_be_used_once_are_refused(tmp_path):
    with SqliteRecords(tmp_path / "shop.db") as store:
        for once in (idempotent(store, "billing"), sync_idempotent(store, "billing")):
            for wrong in (generating, generating_async, 5):
                with pytest.raises(InvalidParameter, match="^the handler of billing is "):
                    once(wrong)
        with pytest.raises(InvalidParameter, match="async one belongs to gantrymq.client.idempotent"):
            once(cancelled)
        with pytest.raises(InvalidParameter, match="^the key of billing is async"):
            idempotent(store, "billing", key=cancelled)


def test_a_closed_producer_says_so_from_an_async_callback():
    async def work(cluster):
        await sent(cluster)
        found = []

        async def callback(result, error):
            await producer.close()  # waits for calls in progress, but not for itself
            try:
                await producer.send(Message(TOPIC, b"x"))
            except ClientError as problem:
                found.append(str(problem))

        async with client_of(cluster) as client:
            producer = client.producer("shop")
            await producer.send_async(Message(TOPIC, b"x"), callback)
            await cluster.world.clock.sleep(1)
        assert len(found) == 1 and "is closed" in found[0]

    simulate_cluster(work, limit_s=4000)
