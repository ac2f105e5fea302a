"""Pages while no master is registered: a slave is asked, and each page says so with its age."""

from __future__ import annotations

from importlib.util import find_spec

import attrs
import pytest
from console_members import commit

from gantrymq.model.queue import Queue

PARTS = ("storage_mmap", "replication", "diagnosis")
pytestmark = [
    pytest.mark.gantrymq(settings={"store": "mmap"}),
    pytest.mark.skipif(not all(find_spec(f"gantrymq_{each}") for each in PARTS), reason=f"needs {', '.join(PARTS)}"),
]


@pytest.fixture
def slave(visitor, tmp_path):
    """The only broker that is left: a slave that has all of its master."""
    from slave_without_master import slave_without_master

    running = visitor.running
    for topic in ("Orders", "%DLQ%billing"):
        running.create_topic(topic, 1)
        running.put(topic, b"1")
    commit(visitor, "billing", "Orders", 0, 0)
    visitor.get("/")  # the master is known

    def copied(broker):
        return broker.offsets.committed("billing", Queue("Orders", 0)) == 0 and broker.groups.get("billing") is not None

    with slave_without_master(running, tmp_path / "slave", copied=copied) as found:
        visitor.cluster.forget()
        yield found


@pytest.mark.parametrize(
    "path",
    [
        "/groups",
        "/groups?sort=late",
        "/groups/billing",
        "/groups/billing/queues",
        "/groups/billing/members",
        "/clients",
    ],
)
def test_a_page_says_that_a_slave_was_asked(slave, visitor, path):
    (asked,) = [each for each in visitor.api(path)["missing"] if each["reason"] == "slave"]
    assert asked["sentence"].startswith(f"this is from the slave {slave.broker_address}, as of 20")
    shown = visitor.get(path).text
    assert "has no registered master. A slave was asked instead: this is from the slave" in shown
    assert "at least" not in shown


def test_numbers_are_those_of_the_slave(slave, visitor):
    for order in ("late", "name"):
        (group,) = visitor.api(f"/groups?sort={order}")["data"]["groups"]
        assert (group["name"], group["lag"], group["partial"]) == ("billing", "1", False)
    head = visitor.api("/groups/billing")["data"]["head"]
    assert (head["lag"], head["partial"], head["dead_letters"]) == ("1", False, "1")
    assert visitor.api("/groups/billing/dlq")["data"]["count"] == "1"


def test_what_a_slave_does_not_deliver_is_missing_and_not_zero(slave, visitor):
    for path in ("/delayed", "/delayed?source=timers", "/transactions"):
        found = visitor.api(path)
        assert "refused" in {each["reason"] for each in found["missing"]}, path
    assert visitor.api("/transactions")["data"]["found"]["partial"]


def test_a_slave_that_does_not_answer_leaves_its_broker_missing(visitor, monkeypatch):
    visitor.get("/about")
    real = visitor.cluster.admin.clusters

    async def with_a_slave(*server):
        info = await real(*server)
        slave = attrs.evolve(info.brokers[0], name="broker-w", addresses={1: "127.0.0.1:1"})
        return attrs.evolve(info, brokers=(*info.brokers, slave))

    monkeypatch.setattr(visitor.cluster.admin, "clusters", with_a_slave)
    visitor.cluster.forget()
    reasons = {each["what"]: each["reason"] for each in visitor.api("/groups")["missing"]}
    assert reasons == {"broker-w": "failed"}
