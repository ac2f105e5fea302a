from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.remoting.codes import RequestCode
from gantrymq_testing import simulated


def test_one_seed_gives_one_run_byte_for_byte(cluster):
    def run(seed: int) -> str:
        trace = simulated.Trace()

        async def work(world):
            async with (
                cluster(world) as c,
                Client(f"gone:1;{c.namesrv}", world=world) as client,
                client.producer("P") as producer,
                Client(c.namesrv, world=world) as consumer_client,
                consumer_client.reader(group="G") as consumer,
            ):
                tasks = [producer.send_async(Message("T", b"%d" % i)) for i in range(20)]
                await consumer.queues("T")
                for task in tasks:
                    await task
                await world.clock.sleep(65)
                assert len(c.brokers["a"].of(RequestCode.HEART_BEAT)) >= 3

        simulated.simulate(seed, work, trace=trace)
        return trace.digest()

    assert run(1) == run(1)
    assert run(1) != run(2)
