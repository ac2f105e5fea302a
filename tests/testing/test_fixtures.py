"""The fixtures: a broker in this process, and one on the virtual clock."""

import asyncio
import threading

import pytest

from gantrymq.client import Client, Message
from gantrymq.config import Setting
from gantrymq.errors import ConfigError, PluginError, SubscriptionParseFailed
from gantrymq.hooks import hookimpl
from gantrymq.plugins import find_candidates
from gantrymq_testing.simulated import Trace

INSTALLED = [each.name for each in find_candidates()[0]]
STORES = [name.partition("_")[2] for name in INSTALLED if name in ("storage_memory", "storage_mmap")]
pytestmark = pytest.mark.skipif(not STORES, reason="no store plugin is installed")


class Shouting:
    """A plugin: an interceptor that stores bodies in capitals."""

    order = 7

    def __call__(self, message):
        message.body = bytes(message.body).upper()
        return message

    @hookimpl
    def gantry_register_interceptors(self, registry):
        registry.add(self)


def bodies(messages):
    return sorted(bytes(each.body) for each in messages)


def test_a_plain_test_sends_and_pulls(gantrymq_broker):
    for number in range(5):
        gantrymq_broker.send("Orders", b"%d" % number, tags="A", keys="k", properties={"colour": "red"})
    found = gantrymq_broker.pull("Orders")
    assert bodies(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert (found[0].tags, found[0].keys, found[0].properties["colour"]) == ("A", "k", "red")
    assert gantrymq_broker.namesrv != gantrymq_broker.broker_address
    assert gantrymq_broker.call(gantrymq_broker.store.state).refusal is None


def test_it_is_ready_in_under_300_ms(gantrymq_broker_factory):
    assert min(gantrymq_broker_factory().start_ms for _ in range(3)) < 300


def test_put_stores_as_plugins_do(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 2)
    result = gantrymq_broker.put("Orders", b"x", queue_id=1, tags="A", properties={"colour": "red"})
    assert result.queue_offset == 0
    (message,) = gantrymq_broker.pull("Orders")
    assert (message.queue_id, message.tags, message.properties["colour"]) == (1, "A", "red")
    assert gantrymq_broker.broker.topics.get("Orders").read_queues == 2


def test_asynchronous_code_uses_clients_on_its_own_loop(gantrymq_broker):
    async def talk():
        async with gantrymq_broker.producer() as producer, gantrymq_broker.consumer() as consumer:
            queues = await producer.queues("Orders")
            assert queues == await consumer.queues("Orders")
            return len(queues)

    gantrymq_broker.create_topic("Orders", 3)
    assert asyncio.run(talk()) == gantrymq_broker.run(talk()) == 3


def test_its_own_thread_must_not_wait_for_itself(gantrymq_broker):
    with pytest.raises(RuntimeError, match="await the coroutine instead"):
        gantrymq_broker.call(gantrymq_broker.send, "Orders", b"")


@pytest.mark.gantrymq(settings={"brokerName": "mine", "maxMessageSize": 2048}, plugins=[Shouting()])
def test_a_marker_gives_settings_and_plugins(gantrymq_broker):
    assert gantrymq_broker.settings.text("brokerName") == "mine"
    gantrymq_broker.send("Orders", b"quiet")
    assert bodies(gantrymq_broker.pull("Orders")) == [b"QUIET"]


def test_brokers_of_one_test_are_apart(gantrymq_broker_factory):
    first, second = gantrymq_broker_factory(), gantrymq_broker_factory({"brokerName": "other"}, [("loud", Shouting())])
    first.send("Orders", b"one")
    second.send("Orders", b"two")
    assert bodies(first.pull("Orders")) == [b"one"]
    assert bodies(second.pull("Orders")) == [b"TWO"]


def test_an_unknown_setting_gets_the_nearest_one(gantrymq_broker_factory):
    with pytest.raises(ConfigError, match="no setting is called brokerNam; did you mean brokerName"):
        gantrymq_broker_factory({"brokerNam": "x"})


class Listening:
    """A plugin that would listen on its own port."""

    @hookimpl
    def gantry_register_config(self, registry):
        registry.add(Setting("listeningPort", "number", 5557, "Port, 0: a free one.", at_least=0, at_most=65535))


@pytest.mark.gantrymq(plugins=[Listening()])
def test_ports_of_plugins_are_free_ones_too(gantrymq_broker):
    assert gantrymq_broker.settings.number("listeningPort") == 0


class Refusing:
    """A service that stops the broker's start."""

    name = "refusing"

    async def start(self, broker):
        raise PluginError("not today")

    async def stop(self):
        raise AssertionError("it never started")

    @hookimpl
    def gantry_register_services(self, registry):
        registry.add(self)


def test_a_start_that_fails_leaves_no_thread(gantrymq_broker_factory):
    before = threading.enumerate()
    with pytest.raises(PluginError, match="not today"):
        gantrymq_broker_factory(plugins=[Refusing()])
    assert [each for each in threading.enumerate() if each not in before] == []


def test_a_test_waits_for_messages_of_a_topic_that_does_not_exist_yet(gantrymq_broker):
    sending = threading.Timer(0.1, lambda: [gantrymq_broker.send("Later", body, tags="A") for body in (b"one", b"two")])
    sending.start()
    assert sorted(bodies(gantrymq_broker.wait_for("Later", 2))) == [b"one", b"two"]
    sending.join()
    assert gantrymq_broker.wait_for("Later", 0, expression="B") == []


def test_a_wait_that_ends_tells_what_there_is(gantrymq_broker):
    with pytest.raises(TimeoutError, match=r"^0 of 1 messages are in Never after 0.05 s: none$"):
        gantrymq_broker.wait_for("Never", timeout_s=0.05)
    gantrymq_broker.send("Orders", b"one")
    with pytest.raises(TimeoutError, match=r"^1 of 3 messages are in Orders after 0 s: b'one'$"):
        gantrymq_broker.wait_for("Orders", 3, timeout_s=0)


def test_a_simulated_wait_takes_no_time(gantrymq_simulation):
    async def work(cluster):
        await cluster.create_topic("Orders", 1)
        cluster.world.clock.call_later(3600, lambda: asyncio.ensure_future(cluster.send("Orders", b"one")))
        return bodies(await cluster.wait_for("Orders", timeout_s=7200))

    assert gantrymq_simulation(work) == [b"one"]


def test_a_stopped_broker_says_so(gantrymq_broker):
    gantrymq_broker.stop()
    gantrymq_broker.stop()
    with pytest.raises(RuntimeError, match="does not run"):
        gantrymq_broker.send("Orders", b"")


@pytest.mark.skipif("mmap" not in STORES, reason="needs a durable store")
@pytest.mark.gantrymq(settings={"store": "mmap"})
def test_a_restart_keeps_what_a_durable_store_has(gantrymq_broker):
    gantrymq_broker.send("Orders", b"one")
    assert gantrymq_broker.restart().clean
    assert bodies(gantrymq_broker.pull("Orders")) == [b"one"]


@pytest.mark.skipif("memory" not in STORES, reason="needs the store in memory")
def test_a_restart_of_the_store_in_memory_keeps_topics_and_no_messages(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 2)
    gantrymq_broker.send("Orders", b"one")
    gantrymq_broker.restart()
    assert bodies(gantrymq_broker.pull("Orders")) == []
    assert gantrymq_broker.broker.topics.get("Orders").read_queues == 2


@pytest.mark.skipif("mmap" not in STORES or "allocate" not in INSTALLED, reason="needs a durable store and allocate")
@pytest.mark.gantrymq(settings={"store": "mmap"})
def test_an_application_survives_a_restart(gantrymq_broker):
    gantrymq_broker.create_topic("Orders", 1)
    addresses = gantrymq_broker.namesrv, gantrymq_broker.broker_address

    async def application():
        loop = asyncio.get_running_loop()
        async with Client(gantrymq_broker.namesrv) as client:
            producer, consumer = client.producer("orders"), client.consumer("billing", "Orders", consume_from="first")
            messages = aiter(consumer)
            await producer.send(Message("Orders", b"one"))
            before = (await anext(messages)).body
            await loop.run_in_executor(None, gantrymq_broker.restart)
            await producer.send(Message("Orders", b"two"), timeout_s=20)
            return before, (await anext(messages)).body

    assert asyncio.run(application()) == (b"one", b"two")
    assert (gantrymq_broker.namesrv, gantrymq_broker.broker_address) == addresses


def test_a_restart_moves_the_broker_on_request(gantrymq_broker):
    addresses = gantrymq_broker.namesrv, gantrymq_broker.broker_address
    gantrymq_broker.restart(new_ports=True)
    assert gantrymq_broker.namesrv != addresses[0]
    assert gantrymq_broker.broker_address != addresses[1]


def test_hours_pass_at_once_in_a_simulation(gantrymq_simulation):
    async def work(cluster):
        before = cluster.world.clock.now_ms()
        await cluster.send("Orders", b"one")
        await cluster.world.clock.sleep(3 * 3600)
        await cluster.send("Orders", b"two")
        return bodies(await cluster.pull("Orders")), (cluster.world.clock.now_ms() - before) // 3_600_000

    assert gantrymq_simulation(work) == ([b"one", b"two"], 3)


def test_one_seed_gives_one_run(gantrymq_simulation):
    async def work(cluster):
        for number in range(5):
            await cluster.send("Orders", b"%d" % number)
        await cluster.pull("Orders")

    def run(seed):
        trace = Trace()
        gantrymq_simulation(work, seed=seed, trace=trace)
        return trace.digest()

    assert run(3) == run(3) != run(4)


def test_a_simulation_raises_what_its_work_raises(gantrymq_simulation):
    async def work(cluster):
        raise SubscriptionParseFailed("as planned")

    with pytest.raises(SubscriptionParseFailed, match="as planned"):
        gantrymq_simulation(work, seed=5, plugins=[Shouting()])
