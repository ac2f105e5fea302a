"""Code shared by tests of the bit map with a simulated broker."""

from sql_client import SqlClient

from gantrymq.loose_json import loads
from gantrymq_store_files.ext_unit import iter_ext_units

SETTINGS = {
    "store": "mmap",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": "4096",
    "flushIntervalConsumeQueue": "10",
}
ASKED = "gantrymq_filter_bitmap_asked_total"
MADE = "gantrymq_filter_bitmap_messages_total"


def beside_a_broker(simulation):
    """Return a function that runs ``work(cluster, client)`` with a simulated broker that has topic T with one queue."""

    def run(work, **settings):
        async def main(cluster):
            await cluster.create_topic("T", 1)
            async with SqlClient(cluster) as client:
                return await work(cluster, client)

        return simulation(main, settings={**SETTINGS, **settings})

    return run


async def put(cluster, *prices, topic="T"):
    """Store a message for each price in queue 0; its body is the price."""
    for price in prices:
        await cluster.put(topic, str(price).encode(), properties={"price": str(price)})
    await cluster.world.clock.sleep(0.002)


async def settle(cluster, seconds=0.01):
    """Wait until the received heartbeats are on disk."""
    await cluster.world.clock.sleep(seconds)


async def units(cluster, topic="T"):
    """The ext units of queue 0 that are in files, in order."""
    await cluster.world.clock.sleep(0.1)
    files, folder = cluster.world.files, cluster.server.root / "consumequeue_ext" / topic / "0"
    return [unit for name in sorted(files.list(folder)) for _, unit in iter_ext_units(files.read(folder / name))]


def shown(cluster, name=ASKED):
    (found,) = [each for each in cluster.broker.metrics.snapshot().plugin_metrics if each.name == name]
    return {outcome: value for (outcome,), value in found.values.items()}


def file_of(cluster):
    """consumerFilter.json: topic to group to its members."""
    path = cluster.server.root / "config" / "consumerFilter.json"
    if cluster.world.files.stat(path) is None:
        return {}
    members = loads(cluster.world.files.read(path))["filterDataByTopic"]
    return {topic: entry["groupFilterData"] for topic, entry in members.items()}
