"""Consumers that ask for themselves, and what the admin tool asks of consumers and sets for them."""

from pathlib import Path

import pytest
from harness import Driver, GantryServer, create_topic
from harness.probe import committed

pytestmark = pytest.mark.interop

COUNT = 12


@pytest.fixture(params=["4.9.8", "5.3.3"])
def driver(request: pytest.FixtureRequest, ours: GantryServer, tmp_path: Path) -> Driver:
    return Driver(request.param, tmp_path, ours.namesrv)


def test_pull_and_lite_pull_consumers_read_seek_and_commit(driver: Driver, ours: GantryServer, topic: str) -> None:
    create_topic(ours.namesrv, topic, queues=2)
    bodies = sorted(str(event["body"]) for event in driver.produce(topic, COUNT))
    found = {event["event"]: event for event in driver.run("read", topic=topic, count=COUNT, behind=5)}
    half = COUNT // 2
    ends = {"0": half, "1": half}
    assert sorted(found["legacy"]["bodies"]) == bodies
    assert (found["legacy"]["ends"], found["committed"]["ends"], found["found by time"]["offset"]) == (ends, ends, 0)
    assert found["scheduled"]["good"]
    assert sorted(found["scheduled"]["bodies"]) == bodies
    assert (sorted(found["subscribed"]["bodies"]), found["subscribed"]["ends"]) == (bodies, ends)
    assert (found["subscribed again"]["bodies"], found["subscribed again"]["ends"]) == ([], ends)
    lite = found["assigned"]
    assert (sorted(lite["first"]), sorted(lite["again"]), lite["none"]) == (bodies, bodies, [])
    assert (len(lite["rest"]), lite["byTime"], lite["committed"]) == (half - 1, 0, half)
    for group in ("legacy", "scheduled", "lite", "assigned"):
        places = [committed(ours.broker_address, f"{topic}-{group}", topic, queue_id) for queue_id in (0, 1)]
        assert places == [half, half], group
