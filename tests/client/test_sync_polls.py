"""The client for threads polls and pops, against a broker in a separate process."""

import threading
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from inspect import getmembers, isfunction

import pytest
from client_rig import Servers

import gantrymq.client
import gantrymq.client.sync
from gantrymq.client import ClientError, TopicConfig
from gantrymq.client.sync import Client, Message

DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    with Servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers.namesrv


@pytest.fixture
def client(namesrv):
    with Client(namesrv) as client:
        yield client


def topic_with(client, name, count):
    client.admin.create_topic_in(TopicConfig(name, 2, 2))
    client.wait_ready(name)
    producer = client.producer(f"to-{name}")
    for number in range(count):
        producer.send(Message(name, b"%d" % number))
    return name


@pytest.mark.parametrize("kind", ["LitePullConsumer", "PopConsumer"])
def test_threads_have_all_that_asyncio_has(kind):
    def public(cls):
        return {name for name, _ in getmembers(cls, isfunction) if not name.startswith("_")}

    made = getattr(gantrymq.client, kind)
    of_its_own = {name for name in vars(made) if not name.startswith("_") and name != "trace"}
    assert of_its_own <= public(getattr(gantrymq.client.sync, kind)) | {"assignment"}


def test_a_thread_polls_seeks_and_commits(client):
    topic = topic_with(client, "Polled", 20)
    consumer = client.lite_pull("ledger", topic, consume_from="first", auto_commit=False)
    queues = consumer.wait_assigned(DEADLINE_S)
    assert (consumer.assignment, len(queues), consumer.queues(topic)) == (queues, 2, queues)
    seen = []
    while len(seen) < 20:
        seen += [int(message.body) for message in consumer.poll(DEADLINE_S, 7)]
    assert sorted(seen) == list(range(20))
    assert consumer.poll(0) == ()
    consumer.commit()
    assert [consumer.committed(queue) for queue in queues] == [consumer.position(queue) for queue in queues]
    consumer.seek(queues[0], consumer.position(queues[0]) - 1)
    assert len(consumer.poll(DEADLINE_S)) == 1
    consumer.seek_to_begin(queues[0])
    consumer.pause(queues[0])
    consumer.resume()
    assert next(iter(consumer)).queue_offset == 0
    consumer.seek_to_end(queues[0])
    consumer.commit({queues[0]: consumer.offset_for_timestamp(queues[0], 0)})
    assert consumer.committed(queues[0]) == 0
    assert consumer.on_queues_changed(topic, print) == queues
    consumer.unsubscribe(topic)
    consumer.close()
    with pytest.raises(ClientError, match="this LitePullConsumer is closed"):
        consumer.poll()


def test_a_thread_assigns(client):
    topic = topic_with(client, "Assigned", 4)
    with client.lite_pull("ledger2", consume_from="first") as consumer:
        consumer.assign(consumer.queues(topic)[:1])
        assert {message.queue_id for message in consumer.poll(DEADLINE_S)} == {0}
    with client.lite_pull("ledger2") as consumer:
        consumer.subscribe(topic)
        assert len(consumer.wait_assigned(DEADLINE_S)) == 2


@pytest.mark.skipif(not find_spec("gantrymq_pop"), reason="the broker's part is a plugin, gantrymq-pop")
def test_threads_pop_and_acknowledge(client):
    topic = topic_with(client, "Popped", 40)
    consumer = client.pop_consumer("packing", topic, consume_from="first", batch=4)
    (first,) = consumer.pop(1)
    consumer.change_invisible_time(first, 30)
    consumer.ack(first)
    (second,) = consumer.pop(1)
    consumer.nack(second, 1)
    seen, lock, all_there = [int(first.body)], threading.Lock(), threading.Event()

    def loop():
        for message in consumer:
            with lock:
                seen.append(int(message.body))
                if len(seen) == 40:
                    all_there.set()

    with ThreadPoolExecutor(3) as pool:
        loops = [pool.submit(loop) for _ in range(3)]
        assert all_there.wait(DEADLINE_S)
        consumer.close()
        for each in loops:
            each.result(DEADLINE_S)
    assert sorted(seen) == list(range(40))
    other = client.pop_consumer("packing", topic)
    assert {int(message.body) for message in other.pop(poll_s=2)} <= {seen[-1]}  # which the last loop did not finish
