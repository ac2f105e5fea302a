"""Filter bit maps that one broker makes are believed by the other: ours by a Java broker, and a Java broker's by ours.

Groups subscribe by SQL92 and leave; messages are stored, with bits for the groups that left; that broker stops. In the
bits of one message that a group wants it is then noted that nobody wants it. The other broker opens the store and the
groups come back. They get all that they want but that message: so the other broker looked at the bits, and found its
way about in ``consumerFilter.json``.
"""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from harness import Driver, GantryServer, JavaBroker, JavaNameServer, Process, create_topic
from harness.java_servers import SMALL_STORE
from harness.polling import wait_until
from harness.process import Event

from gantrymq.loose_json import loads
from gantrymq_store_files.ext_unit import iter_ext_units

pytestmark = pytest.mark.interop

JAVA = "5.3.3"
SETTINGS = {
    **SMALL_STORE,
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": "1024",
}
GROUPS = {"Dear": "price > 50", "Red": "color = 'red' OR price = 999"}
LAST = ("999", "red")  # every group wants it
ARRIVAL_S = 60.0


def test_bits_of_either_broker_are_believed_by_the_other(tmp_path: Path, topic: str) -> None:
    store = tmp_path / "store"
    with GantryServer.both(tmp_path / "ours", store=store, settings=SETTINGS) as server:
        create_topic(server.namesrv, topic, queues=1)
        _come_and_leave(tmp_path / "first", server.namesrv, topic)
        _send(tmp_path / "first", server.namesrv, topic, "ours")
        assert server.stop() == 0
    ours = _filters(store, topic)
    assert {group: data["expression"] for group, data in ours.items()} == GROUPS
    assert all(data["dead"] for data in ours.values())
    lied = _lie(store, topic, 9)

    with (
        JavaNameServer(JAVA, tmp_path / "namesrv") as namesrv,
        JavaBroker(JAVA, tmp_path / "java", namesrv.address, store=store, settings=SETTINGS),
    ):
        client = _client(tmp_path / "second", namesrv.address, topic)
        with client:
            _assert_all_but(lied, client, _sent("ours"))
            client.close_input()
            client.finish()
        java = _filters(store, topic, dead=True)
        _send(tmp_path / "second", namesrv.address, topic, "java")
    for group, data in java.items():  # Java took our entries for its own: the same bits, born at the same time
        assert (data["bloomFilterData"], data["bornTime"]) == (ours[group]["bloomFilterData"], ours[group]["bornTime"])
    lied = _lie(store, topic, len(_sent("ours")) + 9)

    with GantryServer.both(tmp_path / "again", store=store, settings=SETTINGS) as server:
        client = _client(tmp_path / "third", server.namesrv, topic)
        with client:
            _assert_all_but(lied, client, _sent("java"))
        for group, data in _filters(store, topic).items():
            assert data["bornTime"] == ours[group]["bornTime"]


def _sent(prefix: str) -> list[tuple[str, str, str]]:
    """Body, price and color of each message, in order."""
    colors = ("red", "green", "blue")
    found = [(f"{prefix}-{number}", str(number * 10), colors[number % 3]) for number in range(18)]
    return [*found, (f"{prefix}-last", *LAST)]


def _wanted(group: str, price: str, color: str) -> bool:
    return int(price) > 50 if group == "Dear" else color == "red" or price == "999"


def _client(scratch: Path, namesrv: str, topic: str) -> Process:
    return Driver(JAVA, scratch, namesrv).start("select", topic=topic)


def _come(client: Process) -> None:
    for group, expression in GROUPS.items():
        client.write_line("\t".join(["push", group, "sql", expression]))
    client.wait_for(lambda p: len(p.of("subscribed")) == len(GROUPS), "two groups that subscribed")


def _come_and_leave(scratch: Path, namesrv: str, topic: str) -> None:
    with _client(scratch / "groups", namesrv, topic) as client:
        _come(client)
        client.close_input()
        client.finish()


def _send(scratch: Path, namesrv: str, topic: str, prefix: str) -> None:
    with _client(scratch / "sending", namesrv, topic) as client:
        for body, price, color in _sent(prefix):
            client.write_line("\t".join(["send", "0", body, "", "price", price, "color", color]))
        client.close_input()
        client.finish()
        assert len(client.of("sent")) == len(_sent(prefix))


def _assert_all_but(lied: int, client: Process, sent: list[tuple[str, str, str]]) -> None:
    """Every group gets what it wants of *sent*, in order, but the message at queue offset *lied*."""
    _come(client)
    last, missing = sent[-1][0], f"{sent[0][0].split('-')[0]}-{lied % len(sent)}"
    assert all(_wanted(group, *sent[lied % len(sent)][1:]) for group in GROUPS)

    def got(group: str) -> list[Event]:
        return [event for event in client.of("got") if event["group"] == group]

    client.wait_for(
        lambda p: all(any(event["body"] == last for event in got(group)) for group in GROUPS), last, ARRIVAL_S
    )
    for group in GROUPS:
        wanted = [body for body, price, color in sent if _wanted(group, price, color) and body != missing]
        assert [event["body"] for event in got(group)] == wanted, group


def _filters(store: Path, topic: str, *, dead: bool = False) -> dict[str, Any]:
    """What consumerFilter.json says of the topic's groups; *dead*: once it says that all have left."""
    path = store / "config" / "consumerFilter.json"

    def read() -> dict[str, Any]:
        if not path.exists() or not path.read_bytes():
            return {}
        found = loads(path.read_bytes())["filterDataByTopic"].get(topic, {})
        return dict(found.get("groupFilterData", {}))

    if dead:
        wait_until(
            lambda: len(read()) == len(GROUPS) and all(each["dead"] for each in read().values()), "dead groups", 30.0
        )
    return read()


def _lie(store: Path, topic: str, queue_offset: int) -> int:
    """Clear the bits of one message that both groups want; returns its queue offset."""
    left = queue_offset
    for path in sorted((store / "consumequeue_ext" / topic / "0").iterdir()):
        units = list(iter_ext_units(path.read_bytes()))
        if left < len(units):
            position, unit = units[left]
            assert any(unit.bits)
            data = bytearray(path.read_bytes())
            data[position + unit.size - len(unit.bits) : position + unit.size] = bytes(len(unit.bits))
            path.write_bytes(data)
            return queue_offset
        left -= len(units)
    raise AssertionError(f"no ext unit {queue_offset}")
