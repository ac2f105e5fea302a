"""Contract tests for message stores.

A plugin's test derives from `StoreContract` and creates its store:

    class TestMyStore(StoreContract):
        def make_store(self, world, root, **settings):
            return MyStore(StoreContext(world, root, Settings(SCHEMA, settings)))

``settings`` are RocketMQ's settings for every store (only ``maxMessageSize``). The guarantees are those of
`gantrymq.interfaces.MessageStore` and of the optional interfaces that the store has (`StoreCapabilities`); tests of the
others are skipped. Statuses and offsets of a get are RocketMQ's
(apache/rocketmq store/.../DefaultMessageStore.java, getMessage; ConsumeQueue.java, getOffsetInQueueByTime).
"""

from __future__ import annotations

from gantrymq_testing.store_contract.finding import FindingCases
from gantrymq_testing.store_contract.getting import GettingCases
from gantrymq_testing.store_contract.keeping import KeepingCases
from gantrymq_testing.store_contract.putting import PuttingCases
from gantrymq_testing.store_contract.showing import ShowingCases

__all__ = ["StoreContract"]


class StoreContract(ShowingCases, PuttingCases, GettingCases, FindingCases, KeepingCases):
    """Derive and define `make_store`."""
