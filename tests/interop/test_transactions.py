"""The official client reaches a transaction service that a plugin brings: decided at once, or when it is asked."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from harness import Driver
from harness.peers import used
from harness.polling import wait_until

from gantrymq.hooks import hookimpl
from gantrymq_testing.running_broker import RunningBroker

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "broker"))
from memory_transactions import MemoryTransactions

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0
WORDS = ("commit", "rollback", "ask", "commit", "ask")
SEEN = ["ask2", "ask4", "commit0", "commit3"]


@pytest.fixture
def broker(gantrymq_broker_factory: Callable[..., RunningBroker]) -> RunningBroker:
    plugin = ModuleType("memory_transactions")

    @hookimpl
    def gantry_register_transactions(registry):
        registry.add("memory", MemoryTransactions)

    plugin.gantry_register_transactions = gantry_register_transactions
    return gantrymq_broker_factory(settings={"transactionCheckInterval": 500}, plugins=[plugin])


@pytest.mark.parametrize("version", ["4.9.8", "5.3.3"])
def test_transactions_of_a_java_client_end_in_a_plugin(broker: RunningBroker, tmp_path: Path, version: str) -> None:
    used("gantrymq broker")
    driver = Driver(version, tmp_path, broker.namesrv)
    events = driver.run("transact", topic="Orders", decide=",".join(WORDS))
    sent = [event for event in events if event["event"] == "sent"]
    assert [event["status"] for event in sent] == ["SEND_OK"] * len(WORDS)
    assert {event["body"] for event in events if event["event"] == "asked"} == {"ask2", "ask4"}

    def bodies() -> list[str]:
        found = broker.pull("Orders")
        return sorted(message.body.decode() for message in found) if len(found) >= len(SEEN) else []

    assert wait_until(bodies, "committed messages", DEADLINE_S) == SEEN
    assert sorted(str(event["body"]) for event in driver.pull("Orders")) == SEEN
