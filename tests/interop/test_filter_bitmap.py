"""Filter bit maps are trusted across brokers: ours by a Java broker, and a Java broker's by ours.

Groups subscribe by SQL92 and leave; messages are stored with bits for these offline groups; the broker stops. The bits
of one message that every group wants are then cleared. The other broker opens the store and the groups return. They
get everything that they subscribed to except that message: so the other broker used the bits, and could read
``consumerFilter.json``. `mqadmin queryCq` shows the same for the same entries at both.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gantrymq_filter_sql92")

from harness import Driver, GantryServer, JavaBroker, Process, create_topic
from harness.java_servers import SMALL_STORE
from harness.mqadmin import MqAdmin
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
LAST = ("999", "red")  # matches every group
ARRIVAL_S = 90.0


def test_bits_of_either_broker_are_believed_by_the_other(tmp_path: Path, topic: str) -> None:
    store = tmp_path / "store"
    with (
        GantryServer.name_server(tmp_path / "namesrv") as names,
        MqAdmin(JAVA, tmp_path, names.namesrv) as mqadmin,
    ):
        with _ours(tmp_path / "ours", names, store), _client(tmp_path / "first", names, topic) as client:
            create_topic(names.namesrv, topic, queues=1)
            _come(client)
            _leave(client)
            _send(client, "ours")
        ours = _filters(store, topic)
        assert {group: data["expression"] for group, data in ours.items()} == GROUPS
        assert all(data["dead"] for data in ours.values())
        lied = _lie(store, topic, 9)

        with (
            JavaBroker(JAVA, tmp_path / "java", names.namesrv, store=store, settings=SETTINGS) as broker,
            _client(tmp_path / "second", names, topic) as client,
        ):
            _assert_all_but(lied, client, _sent("ours"))
            shown = {group: _shown(mqadmin, names, broker.address, topic, group) for group in GROUPS}
            _leave(client)
            _send(client, "java")
        java = _filters(store, topic)
        for group, data in java.items():  # Java accepted our entries: the same bits, with the same creation time
            born = data["bloomFilterData"], data["bornTime"], data["dead"]
            assert born == (ours[group]["bloomFilterData"], ours[group]["bornTime"], True)
        lied = _lie(store, topic, len(_sent("ours")) + 9)

        with (
            _ours(tmp_path / "again", names, store) as server,
            _client(tmp_path / "third", names, topic) as client,
        ):
            _assert_all_but(lied, client, _sent("java"))
            for group in GROUPS:
                assert _shown(mqadmin, names, server.broker_address, topic, group) == shown[group]
        for group, data in _filters(store, topic).items():
            assert data["bornTime"] == ours[group]["bornTime"]


@contextmanager
def _ours(scratch: Path, names: GantryServer, store: Path) -> Iterator[GantryServer]:
    """Our broker on *store*; it stops in good order."""
    settings = {**SETTINGS, "storePathRootDir": str(store)}
    with GantryServer.broker(scratch, names.namesrv, settings=settings) as server:
        yield server
        assert server.stop() == 0


def _shown(mqadmin: MqAdmin, names: GantryServer, broker: str, topic: str, group: str) -> str:
    """Return the tool's output for the first entries, without the versions, which clients increase."""
    where = ("-n", names.namesrv, "-b", broker, "-t", topic, "-q", "0")
    text = mqadmin.run("queryCq", *where, "-i", "0", "-c", str(len(_sent(""))), "-g", group)
    text = text[text.index("Subscription data:") :]
    assert text.count("bitMap='0") + text.count("bitMap='1") == len(_sent("")), text
    assert "eval=true" in text
    assert "eval=false" in text
    text = text.replace(f"max: {2 * len(_sent(''))},", f"max: {len(_sent(''))},")  # the second broker has more
    return re.sub(r'"(subVersion|clientVersion)":\d+', r'"\1":0', text)


def _sent(prefix: str) -> list[tuple[str, str, str]]:
    """Body, price and color of each message, in order."""
    colors = ("red", "green", "blue")
    found = [(f"{prefix}-{number}", str(number * 10), colors[number % 3]) for number in range(18)]
    return [*found, (f"{prefix}-last", *LAST)]


def _wanted(group: str, price: str, color: str) -> bool:
    return int(price) > 50 if group == "Dear" else color == "red" or price == "999"


def _client(scratch: Path, names: GantryServer, topic: str) -> Process:
    return Driver(JAVA, scratch, names.namesrv).start("select", topic=topic)


def _come(client: Process) -> None:
    for group, expression in GROUPS.items():
        client.write_line("\t".join(["push", group, "sql", expression]))
    client.wait_for(lambda p: len(p.of("subscribed")) == len(GROUPS), "two groups that subscribed", ARRIVAL_S)


def _leave(client: Process) -> None:
    client.write_line("leave")
    client.wait_for(lambda p: p.of("left"), "groups that left", ARRIVAL_S)


def _send(client: Process, prefix: str) -> None:
    for body, price, color in _sent(prefix):
        client.write_line("\t".join(["send", "0", body, "", "price", price, "color", color]))
    client.wait_for(lambda p: len(p.of("sent")) == len(_sent(prefix)), "messages that were sent", ARRIVAL_S)


def _assert_all_but(lied: int, client: Process, sent: list[tuple[str, str, str]]) -> None:
    """Check that every group gets its messages of *sent*, in order, except the one at queue offset *lied*."""
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


def _filters(store: Path, topic: str) -> dict[str, Any]:
    """Return the entries of the topic's groups in consumerFilter.json of a stopped broker."""
    found = loads((store / "config" / "consumerFilter.json").read_bytes())["filterDataByTopic"][topic]
    return dict(found["groupFilterData"])


def _lie(store: Path, topic: str, queue_offset: int) -> int:
    """Clear the bits of one message that both groups want; return its queue offset."""
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
