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

from gantrymq_testing.store_contract.reads import GetCases, LookupCases
from gantrymq_testing.store_contract.writes import PreservationCases, PutCases, VisibilityCases

__all__ = ["StoreContract"]


class StoreContract(VisibilityCases, PutCases, GetCases, LookupCases, PreservationCases):
    """Derive and define `make_store`."""
