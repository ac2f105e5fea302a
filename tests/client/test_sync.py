"""The client for threads, against a broker in a separate process."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from itertools import count

import pytest
from client_rig import Servers
from polling import wait_until

from gantrymq.client import Client as AsyncClient
from gantrymq.client import MessageQueue, OffsetTarget, ReconsumeLater, TopicConfig, TransactionState
from gantrymq.client.sync import Client, Message
from gantrymq.client.sync import portal as portal_module
from gantrymq.client.sync.parts import run_check_in_thread
from gantrymq.errors import CallTimeout, ClientError, InvalidParameter, NoRoute

DEADLINE_S = 60.0
_numbers = count()


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers.namesrv


@pytest.fixture
def client(namesrv):
    with Client(namesrv) as client:
        yield client


@pytest.fixture
def topic(client):
    """A topic with two queues that no other test uses."""
    name = f"Sync{next(_numbers)}"
    client.admin.create_topic_in(TopicConfig(name, 2, 2))
    client.wait_ready(name)
    return name


def within(work, deadline_s=DEADLINE_S):
    """Return the result of *work*, run in another thread; fail if that takes too long."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(deadline_s)
    finally:
        pool.shutdown(wait=False)


def taken(consumer, number):
    """Bodies of the next *number* messages; all but the last one are acknowledged."""

    def work():
        bodies = []
        for message in consumer:
            bodies.append(message.body.decode())
            if len(bodies) == number:
                return bodies
        return bodies

    return within(work)


def test_threads_send_in_every_way_and_each_message_arrives_once(client, topic):
    producer = client.producer("shop")

    def send(thread):
        results = [producer.send(Message(topic, f"{thread} one".encode()))]
        results.append(producer.send_batch([Message(topic, f"{thread} batch {n}".encode()) for n in range(3)]))
        results += [f.result(DEADLINE_S) for f in [producer.send_soon(Message(topic, b"%d soon" % thread))] * 2]
        producer.send_oneway(Message(topic, b"%d oneway" % thread))
        results += producer.send_batches([Message(topic, b"%d batches" % thread)])
        return all(result.ok for result in results)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(send, range(8)))
    bodies = taken(client.consumer(f"{topic}-all", topic, consume_from="first"), 8 * 7)
    expected = ["one", "batch 0", "batch 1", "batch 2", "soon", "oneway", "batches"]
    assert sorted(bodies) == sorted(f"{thread} {word}" for thread in range(8) for word in expected)


def test_a_client_has_one_producer_of_a_group_and_gives_it_each_time(client, topic):
    def check(message):
        return TransactionState.COMMIT

    for number in range(3):
        client.producer("shop").send(Message(topic, b"%d" % number))
    with client.transaction_producer("deciding", check).transaction(Message(topic, b"3")):
        pass
    producer, deciding = client.producer("shop"), client.transaction_producer("deciding", check)
    assert client.producer("shop") is producer
    assert client.transaction_producer("deciding", check) is deciding
    with pytest.raises(ClientError, match="that was created with other options or as another class"):
        client.transaction_producer("deciding", lambda _: TransactionState.ROLLBACK)
    producer.close()
    assert client.producer("shop") is not producer


def test_a_message_is_acknowledged_by_asking_for_the_next_one(namesrv, client, topic):
    producer, group = client.producer("shop"), f"{topic}-group"
    queues = producer.queues(topic)
    for number in range(5):
        producer.send(Message(topic, b"%d" % number), queues[0])
    consumer = client.consumer(group, topic, consume_from="first")
    assert taken(consumer, 3) == ["0", "1", "2"]
    consumer.close()
    assert client.admin.committed_offset(group, queues[0]) == 2
    again = client.consumer(group, topic, consume_from="first")
    assert taken(again, 3) == ["2", "3", "4"]


def test_an_exception_in_the_loop_does_not_keep_close_waiting_for_itself(namesrv, client, topic):
    client.producer("shop").send(Message(topic, b"first"))
    group = f"{topic}-group"

    def work():
        with Client(namesrv) as other:
            for message in other.consumer(group, topic, consume_from="first"):
                raise ValueError(message.body)

    with pytest.raises(ValueError, match="first"):
        within(work)
    assert taken(client.consumer(group, topic, consume_from="first"), 1) == ["first"]


def test_a_loop_that_fails_has_consumed_what_came_before(namesrv, client, topic):
    producer, group = client.producer("shop"), f"{topic}-group"
    (queue, _) = producer.queues(topic)
    for number in range(200):
        producer.send_soon(Message(topic, b"%d" % number), queue)
    producer.close()

    def work():
        with Client(namesrv) as other:
            for number, _ in enumerate(other.consumer(group, topic, consume_from="first")):
                if number == 150:
                    raise ValueError("the 151st")

    with pytest.raises(ValueError, match="the 151st"):
        within(work)
    assert client.admin.committed_offset(group, queue) == 150


def test_a_slow_loop_keeps_one_message_and_others_get_the_rest(client, topic):
    producer, group = client.producer("shop"), f"{topic}-group"
    queues = producer.queues(topic)
    for number in range(100):
        producer.send_soon(Message(topic, b"%d" % number), queues[0])
    producer.close()
    consumer = client.consumer(group, topic, consume_from="first")
    slow = iter(consumer)
    got = [within(slow.__next__).body for _ in range(5)]  # by then it gets several at a time
    rest = taken(consumer, 95)
    assert sorted([*got, *(body.encode() for body in rest)]) == sorted(b"%d" % number for number in range(100))
    slow.close()  # returned when the loop's thread runs, like the in-flight message of the other loop
    assert sorted(taken(consumer, 2)) == sorted([got[-1].decode(), rest[-1]])


def test_messages_acknowledged_by_hand(client, topic):
    producer, group = client.producer("shop"), f"{topic}-group"
    (queue, _) = producer.queues(topic)
    for number in range(3):
        producer.send(Message(topic, b"%d" % number), queue)
    consumer = client.consumer(group, topic, consume_from="first", auto_ack=False)
    loop = iter(consumer)
    messages = [within(loop.__next__) for _ in range(3)]
    assert [consumer.ack(each) for each in messages] == [True, True, True]
    assert consumer.ack(messages[0]) is False
    loop.close()
    with pytest.raises(StopIteration):
        next(loop)
    consumer.close()
    assert client.admin.committed_offset(group, queue) == 3
    with pytest.raises(ClientError, match="acknowledges automatically"):
        client.consumer(f"{group}-2", topic).ack(messages[0])


def test_handlers_run_in_threads_and_what_fails_comes_again(client, topic):
    producer = client.producer("shop")
    producer.send_batches([Message(topic, b"%d" % number) for number in range(20)])
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
    seen, threads, together = [], set(), threading.Barrier(3)

    def handle(message):
        seen.append(message.body)
        if len(threads) < 3:
            threads.add(threading.current_thread().name)
            together.wait(DEADLINE_S)  # three at a time, or it never ends
        if message.reconsume_times == 0 and message.body == b"7":
            raise ReconsumeLater(1)
        if len(seen) == 21:  # each message once, and one of them again
            consumer.close()

    within(lambda: consumer.run(handle, concurrency=3))
    assert (len(threads), sorted(set(seen)), seen.count(b"7")) == (3, sorted(b"%d" % n for n in range(20)), 2)
    assert not consumer.is_started


def test_batch_handlers_and_batches(client, topic):
    client.producer("shop").send_batch([Message(topic, b"%d" % number) for number in range(8)])
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
    seen = []

    def handle(messages):
        seen.extend(message.body for message in messages)
        if len(seen) == 8:
            client.close()  # all of it, from a handler
            return

    loops = client.consumer(f"{topic}-loops", topic, consume_from="first").batches(8)
    assert within(loops.__next__)
    loops.close()
    within(lambda: consumer.run(handle, concurrency=1, batch_size=4))
    assert seen == [b"%d" % number for number in range(8)]
    assert not client.is_started
    with pytest.raises(ClientError, match="this Consumer is closed"):
        consumer.commit()


def test_handlers_and_numbers_that_are_refused(client, topic):
    consumer = client.consumer(f"{topic}-group", topic)

    async def handle(message):
        """Belongs to the other client."""

    with pytest.raises(InvalidParameter, match="is async; expected a plain function: an async one belongs to"):
        consumer.run(handle)
    with pytest.raises(InvalidParameter, match="concurrency is 0; expected 1 to 1024"):
        consumer.run(print, concurrency=0)
    with pytest.raises(InvalidParameter, match="batch_size is 0"):
        consumer.run(print, batch_size=0)


class Odd(BaseException):
    """No Exception."""


def cancelled_future():
    future = Future()
    future.cancel()
    future.result()


def raising(kind):
    raise kind


FAILURES = {
    "a cancelled future": cancelled_future,
    "CancelledError": lambda: raising(asyncio.CancelledError),
    "StopIteration": lambda: next(iter(())),
    "another": lambda: raising(Odd),
    "a coroutine returned": lambda: asyncio.sleep(0),
    "a generator returned": lambda: (number for number in range(3)),
}


def test_a_plain_handler_that_fails_in_any_way_fails_for_its_message_alone(client, topic, caplog):
    client.producer("shop").send_batches([Message(topic, name.encode()) for name in FAILURES])
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
    seen = []

    def handle(message):
        if message.reconsume_times == 0:
            return FAILURES[message.body.decode()]()
        seen.append(message.body.decode())
        if len(seen) == len(FAILURES):
            consumer.close()
        return None

    within(lambda: consumer.run(handle, concurrency=1))
    assert sorted(seen) == sorted(FAILURES)
    assert caplog.text.count("a handler of") == len(FAILURES)
    assert "returned coroutine, which is not awaited here; make it a plain function" in caplog.text


def test_plain_handlers_of_the_other_client_fail_as_such_and_what_they_return_is_awaited(namesrv, client, topic):
    client.producer("shop").send_batches([Message(topic, name.encode()) for name in FAILURES])
    seen, awaited = [], []

    async def consume():
        loop, all_seen = asyncio.get_running_loop(), asyncio.Event()

        async def later(message):
            awaited.append(message.body.decode())
            await asyncio.sleep(0)
            if message.reconsume_times == 0:
                raise ValueError

        def handle(message):
            seen.append((message.body.decode(), message.reconsume_times))
            if len(seen) == 2 * len(FAILURES):
                loop.call_soon_threadsafe(all_seen.set)
            if message.body == b"a coroutine returned":
                return later(message)
            return None if message.reconsume_times else FAILURES[message.body.decode()]()

        async with AsyncClient(namesrv) as asking:
            consumer = asking.consumer(f"{topic}-group", topic, consume_from="first")
            running = asyncio.ensure_future(consumer.run(handle, concurrency=1))
            await asyncio.wait_for(all_seen.wait(), DEADLINE_S)
            assert not running.done()
            await consumer.close()
            await running

    asyncio.run(consume())
    assert sorted(seen) == sorted((name, times) for name in FAILURES for times in (0, 1))
    assert awaited == ["a coroutine returned"] * 2


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_a_handler_that_ends_the_program_ends_run_with_that_error_alone(client, topic, kind):
    client.producer("shop").send(Message(topic, b"x"))
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")

    def work():
        try:
            consumer.run(lambda _: raising(kind("enough")), concurrency=3)
        except BaseException as error:
            return error

    error = within(work)
    assert (type(error), str(error)) == (kind, "enough")
    assert client.producer("other").send(Message(topic, b"y")).ok  # the client continues
    consumer.close()
    again = client.consumer(f"{topic}-group", topic)
    assert sorted(taken(again, 2)) == ["x", "y"]


def test_a_function_that_ends_the_program_in_the_clients_own_thread_ends_the_call_that_waits(client, topic):
    producer = client.producer("shop")

    def work():
        try:
            producer.send(Message(topic, b"x"), lambda queues, message: raising(SystemExit("enough")))
        except SystemExit as error:
            return error

    assert str(within(work)) == "enough"
    assert producer.send(Message(topic, b"y")).ok  # the client continues


def test_a_listener_that_ends_the_program_ends_every_call_that_waits(client, topic):
    def work():
        consumer = client.consumer(f"{topic}-group", topic, on_rebalance=lambda *_: raising(SystemExit("enough")))
        try:
            next(iter(consumer))
        except SystemExit as error:
            return error

    assert str(within(work)) == "enough"
    assert client.producer("shop").send(Message(topic, b"y")).ok


def end_the_program(client):
    """Raise SystemExit in the loop while no thread waits for a call."""
    portal = client._portal

    async def listener():
        raise SystemExit("enough")

    tasks = []
    portal.call_soon(lambda: tasks.append(asyncio.ensure_future(listener())))
    wait_until(lambda: portal._unraised is not None, "the error to be kept")


def test_an_error_that_ends_the_program_while_no_thread_waits_ends_the_next_call(client, topic):
    end_the_program(client)
    with pytest.raises(SystemExit, match="enough"):
        client.producer("shop")
    assert client.producer("shop").send(Message(topic, b"y")).ok


def test_closing_raises_no_error_of_before(client):
    end_the_program(client)
    client.close()


def test_closing_ends_a_loop_of_another_thread(client, topic):
    consumer = client.consumer(f"{topic}-group", topic)
    with ThreadPoolExecutor(1) as pool:
        counted = pool.submit(lambda: sum(1 for _ in consumer))
        consumer.wait_assigned()
        consumer.close()
        assert counted.result(DEADLINE_S) == 0


def test_closing_waits_for_what_a_loop_of_another_thread_has_in_hand(client, topic):
    producer, group = client.producer("shop"), f"{topic}-group"
    (queue, _) = producer.queues(topic)
    producer.send(Message(topic, b"once"), queue)
    consumer = client.consumer(group, topic, consume_from="first")
    has_it, may_go_on = threading.Event(), threading.Event()

    def work():
        for message in consumer:
            has_it.set()
            may_go_on.wait(DEADLINE_S)
            return_after = message.body
        return return_after

    with ThreadPoolExecutor(2) as pool:
        looping = pool.submit(work)
        assert has_it.wait(DEADLINE_S)
        closing = pool.submit(consumer.close)
        with pytest.raises(TimeoutError):
            closing.result(0.3)
        may_go_on.set()
        closing.result(DEADLINE_S)
        assert looping.result(DEADLINE_S) == b"once"
    assert client.admin.committed_offset(group, queue) == 1


def test_closing_gives_up_a_loop_that_nobody_asks_any_more(monkeypatch, client, topic):
    monkeypatch.setattr("gantrymq.client.sync.client.LOOP_GRACE_S", 0.2)
    client.producer("shop").send(Message(topic, b"kept"))
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
    with ThreadPoolExecutor(1) as pool:
        kept = iter(consumer)
        assert pool.submit(kept.__next__).result(DEADLINE_S).body == b"kept"
        within(consumer.close)
    with pytest.raises(ClientError, match="this Consumer is closed"):
        consumer.commit()


def test_calls_that_come_while_it_closes_end(namesrv, client, topic):
    """Every call returns a result or raises an error of the client; none waits for a stopped loop."""
    for _ in range(5):
        other = Client(namesrv)
        other.start()
        producer, stop, begun = other.producer("shop"), threading.Event(), threading.Barrier(9)

        def send(producer=producer, stop=stop, begun=begun):
            begun.wait(DEADLINE_S)
            while not stop.is_set():
                producer.send_soon(Message(topic, b"x")).exception(DEADLINE_S)
                producer.send(Message(topic, b"x"))

        with ThreadPoolExecutor(8) as pool:
            sending = [pool.submit(send) for _ in range(8)]
            begun.wait(DEADLINE_S)
            within(other.close)
            errors = [each.exception(DEADLINE_S) for each in sending]
            stop.set()
        assert all(isinstance(error, ClientError | CancelledError) for error in errors), errors


def test_close_waits_no_longer_than_it_is_told(client, topic):
    client.producer("shop").send(Message(topic, b"stuck"))
    consumer = client.consumer(f"{topic}-group", topic, consume_from="first")
    begun, may_end = threading.Event(), threading.Event()

    def handle(message):
        begun.set()
        may_end.wait(DEADLINE_S)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(consumer.run, handle)
        assert begun.wait(DEADLINE_S)
        within(lambda: client.close(timeout_s=0.2))
        may_end.set()
        running.result(DEADLINE_S)
    client.close()
    assert not any(thread.name == "gantrymq-client" for thread in threading.enumerate())


def test_transactions_of_plain_functions(client, topic):
    producer = client.transaction_producer("payers", lambda message: TransactionState.COMMIT)
    with producer.transaction(Message(topic, b"paid")) as transaction:
        assert transaction.id
    with pytest.raises(KeyError), producer.transaction(Message(topic, b"failed")):
        raise KeyError("the work of the application")
    with producer.transaction(Message(topic, b"thought better of")) as transaction:
        transaction.state = TransactionState.ROLLBACK
    producer.send(Message(topic, b"plain"))
    assert sorted(taken(client.consumer(f"{topic}-group", topic, consume_from="first"), 2)) == ["paid", "plain"]


@pytest.mark.parametrize("whole", [False, True], ids=["producer", "client"])
@pytest.mark.parametrize("ends", [None, KeyError])
def test_a_decision_after_closing_is_logged_and_hides_no_error(namesrv, topic, whole, ends, caplog):
    with Client(namesrv) as client:
        producer = client.transaction_producer(f"{topic}-payers", lambda message: TransactionState.COMMIT)
        with (
            pytest.raises(ends) if ends else contextlib.nullcontext(),
            producer.transaction(Message(topic, b"x")) as transaction,
        ):
            (client if whole else producer).close()
            if ends:
                raise ends
    told = [record.getMessage() for record in caplog.records if transaction.id in record.getMessage()]
    assert told
    assert all(each.endswith("; the broker will check") for each in told)


def test_a_check_runs_in_a_thread():
    where = []

    def check(message):
        where.append(threading.current_thread())
        return TransactionState.ROLLBACK

    assert asyncio.run(run_check_in_thread(check)(None)) is TransactionState.ROLLBACK
    assert where[0] is not threading.current_thread()


def test_readers_and_administration(client, topic):
    producer = client.producer("shop")
    queues = producer.queues(topic)
    for number in range(6):
        producer.send(Message(topic, b"%d" % number), queues[number % 2])
    reader = client.reader(topic)
    assert sorted(message.body for message in reader) == [b"%d" % number for number in range(6)]
    assert reader.positions == dict.fromkeys(queues, 3)
    assert [message.body for message in reader.read(queues[0], 1)] == [b"2", b"4"]
    assert (reader.min_offset(queues[1]), reader.max_offset(queues[1])) == (0, 3)
    assert [m.body for m in reader.pull(queues[1], 2).messages] == [b"5"]
    assert topic in client.admin.topics()
    assert [each.count for each in client.admin.topic_status(topic).values()] == [3, 3]
    group = f"{topic}-group"
    client.consumer(group, topic, consume_from="first").close()
    client.admin.reset_offsets(group, topic, OffsetTarget.at_offset(2))
    assert client.admin.committed_offsets(group, topic) == dict.fromkeys(queues, 2)
    with pytest.raises(NoRoute, match="no name server knows topic Nope"):
        client.admin.route("Nope")
    assert isinstance(queues[0], MessageQueue)


def test_errors_are_those_of_the_other_client(client):
    with pytest.raises(TimeoutError, match="not ready after 0 s") as raised:
        client.wait_ready("Nope", timeout_s=0)
    assert isinstance(raised.value, CallTimeout)
    with pytest.raises(InvalidParameter, match="has no option retrys"):
        client.producer("shop", retrys=3)


def test_inside_an_event_loop_one_sentence_says_what_to_use(namesrv, client, topic):
    producer, consumer = client.producer("shop"), client.consumer(f"{topic}-group", topic)
    calls = [
        lambda: producer.send(Message(topic, b"x")),
        lambda: producer.send_soon(Message(topic, b"x")),
        lambda: next(iter(consumer)),
        lambda: consumer.run(print),
        client.close,
        Client(namesrv).start,
    ]

    async def work():
        for call in calls:
            with pytest.raises(ClientError, match=r"this client is for threads.*use gantrymq\.client\.Client instead"):
                call()

    asyncio.run(work())
    assert producer.send(Message(topic, b"x")).ok
    assert sum(thread.name == "gantrymq-client" for thread in threading.enumerate()) == 1


def test_a_callback_in_the_clients_own_thread_may_not_wait_for_it(client, topic):
    producer = client.producer("shop")

    def select(queues, message):
        client.admin.topics()
        return queues[0]

    with pytest.raises(ClientError, match="this client is for threads"):
        within(lambda: producer.send(Message(topic, b"x"), select))


def test_one_that_is_not_started_or_was_closed_says_so(namesrv):
    client = Client(namesrv)
    for _ in range(2):
        with pytest.raises(ClientError, match=r"this Client is not started; use 'with Client\(\.\.\.\)' or start\(\)"):
            client.producer("shop")
        client.start()
        client.start()
        producer = client.producer("shop")
        producer.close()
        producer.close()
        assert not producer.is_started
        client.close()
        client.close()


@pytest.mark.filterwarnings("default::ResourceWarning")
def test_one_that_is_forgotten_warns_and_ends_its_thread(namesrv):
    client = Client(namesrv)
    client.start()
    producer = client.producer("shop")
    (thread,) = [each for each in threading.enumerate() if each.name == "gantrymq-client"]
    del producer
    with pytest.warns(ResourceWarning, match=r"a Client was not closed; use 'with Client\(\.\.\.\)'"):
        del client  # its last name
    thread.join(DEADLINE_S)
    assert not thread.is_alive()


# --- programs of their own ------------------------------------------------------------------------------------------

FORK = """
import os, sys
from gantrymq.client.sync import Client, Message
from gantrymq.client.sync import portal as portal_module
with Client(sys.argv[1]) as client:
    producer = client.producer("forkers")
    producer.send(Message("Forked", b"before"))
    child = os.fork()
    if child == 0:
        try:
            producer.send(Message("Forked", b"child"))
        except Exception as problem:
            print(type(problem).__name__, problem, flush=True)
        client.close()
        with Client(sys.argv[1]) as own:
            print(own.producer("forkers").send(Message("Forked", b"own")).ok, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(producer.send(Message("Forked", b"after")).ok)
"""

INTERRUPTED = """
import signal, sys, threading
from gantrymq.client.sync import Client
signal.signal(signal.SIGINT, signal.default_int_handler)
with Client(sys.argv[1]) as client:
    consumer = client.consumer("waiters", sys.argv[2], consume_from="first")
    consumer.wait_assigned()
    try:
        {0}
    except KeyboardInterrupt:
        print("interrupted", flush=True)
print("closed", [each.name for each in threading.enumerate() if each.name == "gantrymq-client"], flush=True)
"""
LOOP = "print('waiting', flush=True); next(iter(consumer))"
RUN = """
        import time
        def handle(message):
            print("waiting", flush=True)
            end = time.monotonic() + 1
            while time.monotonic() < end:
                pass
            print("handled", flush=True)
        consumer.run(handle)
"""


def program(source, *words):
    return subprocess.Popen(
        [sys.executable, "-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning", "-c", source, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_a_fork_one_sentence_says_what_to_do(namesrv):
    with program(FORK, namesrv) as forking:
        said, errors = forking.communicate(timeout=DEADLINE_S)
    lines = said.splitlines()
    assert (forking.returncode, errors, lines[1:]) == (0, "", ["True", "True"])
    assert lines[0].startswith("ClientError this client was started in process ")
    assert lines[0].endswith("create a Client in each process, after the fork")


def lines_of_call(portal, work, interrupted_at=0):
    """Call *portal*, interrupted before a line of its code or asyncio's, counted from 1. Return the number of lines."""
    files = {portal_module.__file__, asyncio.base_events.__file__, asyncio.selector_events.__file__}
    lines = 0

    def at_line(frame, event, argument):
        nonlocal lines
        if event == "line":
            lines += 1
            if lines == interrupted_at:
                sys.settrace(None)
                raise KeyboardInterrupt
        return at_line

    before = sys.gettrace()
    sys.settrace(lambda frame, event, argument: at_line if frame.f_code.co_filename in files else None)
    try:
        portal.call(work)
    finally:
        sys.settrace(before)
    return lines


async def wait_for_ever():
    await asyncio.wait_for(asyncio.Event().wait(), DEADLINE_S)


async def until_other_tasks_end():
    while len(asyncio.all_tasks()) > 2:  # noqa: ASYNC110 - the loop's own task and this one remain
        await asyncio.sleep(0)


def test_ctrl_c_at_any_line_of_a_call_leaves_a_client_that_answers():
    portal = portal_module.Portal()
    try:
        lines = lines_of_call(portal, until_other_tasks_end)
        for line in range(1, lines + 1):
            with pytest.raises(KeyboardInterrupt):
                lines_of_call(portal, wait_for_ever, interrupted_at=line)
            portal.submit(until_other_tasks_end).result(DEADLINE_S)  # the interrupted work was cancelled
    finally:
        portal.stop()
    assert lines > 20


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize(("source", "says"), [(LOOP, []), (RUN, ["handled"])], ids=["a loop", "run"])
def test_ctrl_c_ends_what_waits(namesrv, client, topic, source, says):
    if says:
        client.producer("shop").send(Message(topic, b"once"))
    with program(INTERRUPTED.format(source), namesrv, topic) as waiting:
        try:
            assert waiting.stdout.readline() == "waiting\n"
            waiting.send_signal(signal.SIGINT)
            said, errors = waiting.communicate(timeout=DEADLINE_S)
        finally:
            with contextlib.suppress(ProcessLookupError):
                waiting.kill()
    assert (waiting.returncode, errors) == (0, "")
    assert said.splitlines() == [*says, "interrupted", "closed []"]
    if says:  # in-flight messages were finished and acknowledged
        progress = client.admin.group_progress(client.admin.masters()[0], "waiters", topic)
        assert sum(each.committed for each in progress.values()) == 1
