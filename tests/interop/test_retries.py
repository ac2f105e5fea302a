"""Official clients fail messages: they come again later each time, and at last they are dead letters."""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from harness import Driver
from harness.peers import used
from harness.polling import wait_until

from gantrymq.errors import NoRoute
from gantrymq.hooks import hookimpl
from gantrymq.model.message import ReceivedMessage
from gantrymq_testing.running_broker import RunningBroker

sys.path.insert(0, str(Path(__file__).parents[1] / "core" / "broker"))
from small_schedule import SmallSchedule

pytestmark = pytest.mark.interop

DEADLINE_S = 30.0
LEVELS_MS = (100, 200, 300, 600, 900, 1200, 1500)  # of which level 3 is the first that a broker picks
OFTEN = {"rocketmq.client.rebalance.waitInterval": "1000"}  # a client reads its retry topic from then on
VERSIONS = ("4.9.8", "5.3.3")


@pytest.fixture
def broker(gantrymq_broker_factory: Callable[..., RunningBroker]) -> RunningBroker:
    plugin, schedule = ModuleType("small_schedule"), SmallSchedule(LEVELS_MS)

    @hookimpl
    def gantry_register_interceptors(registry):
        registry.add(schedule)

    @hookimpl
    def gantry_register_services(registry):
        registry.add(schedule)

    plugin.gantry_register_interceptors = gantry_register_interceptors
    plugin.gantry_register_services = gantry_register_services
    return gantrymq_broker_factory(plugins=[plugin])


@pytest.fixture(params=VERSIONS)
def driver(request: pytest.FixtureRequest, broker: RunningBroker, tmp_path: Path) -> Driver:
    used("gantrymq broker")
    return Driver(request.param, tmp_path, broker.namesrv, properties=OFTEN)


def dead_letters(broker: RunningBroker) -> list[ReceivedMessage]:
    try:
        return broker.pull("%DLQ%payers")
    except NoRoute:
        return []


def test_a_failing_message_comes_later_each_time_and_at_last_lies_among_the_dead(
    broker: RunningBroker, driver: Driver
) -> None:
    driver.produce("Orders", 2, tags="fail2,fail9", keys_prefix="k", body_prefix="m")
    consumer = driver.start("retry", topic="Orders", group="payers", max_times=3)
    with consumer:
        dead = wait_until(lambda: dead_letters(broker), "a dead letter", DEADLINE_S)
        tried = consumer.of("tried")
    by_key = {key: [e for e in tried if e["keys"] == key] for key in ("k0", "k1")}
    assert [(e["times"], e["good"]) for e in by_key["k0"]] == [(0, False), (1, False), (2, True)]
    assert [(e["times"], e["good"]) for e in by_key["k1"]] == [(0, False), (1, False), (2, False), (3, False)]
    assert {e["topic"] for e in tried} == {"Orders"}
    for events in by_key.values():
        waited = [after["at"] - before["at"] for before, after in pairwise(events)]
        assert all(ms >= due for ms, due in zip(waited, LEVELS_MS[2:], strict=False)), waited
    (letter,) = dead
    assert letter.properties["RETRY_TOPIC"] == "Orders"
    assert (letter.reconsume_times, letter.properties["DELAY"]) == (4, "0")


def test_a_delay_level_that_the_consumer_chooses(broker: RunningBroker, driver: Driver) -> None:
    driver.produce("Orders", 1, tags="fail1")
    with driver.start("retry", topic="Orders", group="payers", level=6) as consumer:
        first, second = wait_until(
            lambda: tried if len(tried := consumer.of("tried")) == 2 else None, "two tries", DEADLINE_S
        )
    assert second["at"] - first["at"] >= LEVELS_MS[5]


def test_a_negative_level_is_a_dead_letter_at_once(broker: RunningBroker, driver: Driver) -> None:
    driver.produce("Orders", 1, tags="fail1")
    with driver.start("retry", topic="Orders", group="payers", level=-1) as consumer:
        (letter,) = wait_until(lambda: dead_letters(broker), "a dead letter", DEADLINE_S)
        assert len(consumer.of("tried")) == 1
    assert letter.reconsume_times == 1
