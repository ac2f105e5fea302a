"""A message store that keeps the broker's topics, groups and offsets itself."""

from types import ModuleType

import pytest

from gantrymq import loose_json
from gantrymq.hooks import hookimpl
from gantrymq.model.queue import Queue
from gantrymq_testing.simulation import simulate_cluster

memory = pytest.importorskip("gantrymq_storage_memory.store")


class Documents:
    """A state store in memory; `problem` makes writes fail."""

    def __init__(self):
        self.texts, self.problem = {}, None

    def load(self, name):
        return loose_json.loads(self.texts[name]) if name in self.texts else None

    def save(self, name, text):
        if self.problem is not None:
            raise self.problem
        self.texts[name] = text

    def has(self, name):
        return name in self.texts

    def place(self, name):
        return f"memory/{name}"


def plugin_with(documents):
    """A plugin with the store "own": the memory store with these documents."""

    class Own(memory.MemoryStore):
        state_store = documents

    @hookimpl
    def gantry_register_stores(registry):
        registry.add("own", Own)

    module = ModuleType("own")
    module.gantry_register_stores = gantry_register_stores
    return module


def test_topics_groups_and_offsets_are_kept_in_it_and_no_file_is_written():
    documents = Documents()

    async def main(cluster):
        await cluster.create_topic("Kept", 1)
        broker = cluster.broker
        broker.groups.require("CG")
        await cluster.send("Kept", b"one")
        broker.offsets.commit("CG", Queue("Kept", 0), 1)
        await cluster.stop()
        files = cluster.world.files
        assert not [name for name in files.list(broker.root / "config") if name.endswith(".json")]
        await cluster.start()
        assert cluster.broker.topics.get("Kept").read_queues == 1
        assert cluster.broker.groups.get("CG") is not None
        assert loose_json.loads(documents.texts["consumerOffset.json"])["offsetTable"]["Kept@CG"] == {0: 1}

    simulate_cluster(main, settings={"store": "own"}, plugins=[("own", plugin_with(documents))])


def test_a_topic_whose_document_cannot_be_saved_is_refused_with_its_place():
    documents = Documents()

    async def main(cluster):
        documents.problem = OSError(5, "no answer")
        with pytest.raises(Exception, match=r"memory/topics.json cannot be written: no answer; make room or fix it"):
            await cluster.send("New", b"one")
        documents.problem = None
        await cluster.world.clock.sleep(2)
        await cluster.send("New", b"two")
        assert "New" in loose_json.loads(documents.texts["topics.json"])["topicConfigTable"]

    simulate_cluster(main, settings={"store": "own"}, plugins=[("own", plugin_with(documents))])
