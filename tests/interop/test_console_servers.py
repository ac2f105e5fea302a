"""Operators' tasks at servers, in the web console: change a master, drain a broker, miss a broker no longer."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from elected_set import BROKER, ElectedSet
from etcd_servers import start_etcd
from harness import GantryServer, JavaBroker, JavaNameServer, Process
from harness.console import GantryConsole, axe_script, chromium
from polling import wait_until
from test_console import SIZES, Site, Visitor

from gantrymq.client import Client, Message, TopicConfig, TransactionState

pytestmark = pytest.mark.interop

Running = Callable[[Process], Process]
SCREENS = os.environ.get("GANTRYMQ_SCREENS")  # folder for a picture of each page


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def visitor_of(running: Running, browser: Any, tmp_path: Path) -> Iterator[Callable[[str], Visitor]]:
    """Return a person at a console for the cluster of a name server."""
    opened = []

    def start(namesrv: str) -> Visitor:
        console = running(GantryConsole(tmp_path / "console", namesrv))
        # axe-core is put into the page, which the policy of the console forbids.
        context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", bypass_csp=True)
        context.set_default_timeout(60_000)
        opened.append((context, Visitor(context, Site(console, namesrv))))
        return opened[-1][1]

    yield start
    for context, visitor in opened:
        visitor.check()
        context.close()


def look(visitor: Visitor, name: str) -> None:
    """Check the page in each size, and keep a picture if there is a folder for it."""
    page, found = visitor.page, []
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            if SCREENS:
                page.screenshot(path=Path(SCREENS, f"{name}-{size}-{scheme}.png"), full_page=True)
            page.evaluate(axe_script())
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found += [f"{size} {scheme}: {each['id']}: {each['nodes'][0]['html']}" for each in result["violations"]]
        inner, outer = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        if inner > outer:
            found.append(f"{size}: {inner} px wide, the window has {outer}")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert found == [], "\n".join(found)


def reload_until(visitor: Visitor, text: str) -> None:
    """Load the page again until it has *text*."""

    def there() -> bool:
        visitor.page.reload()
        return text in visitor.text

    wait_until(there, f"{text!r} on the page", 60, lambda: visitor.text)


def change_master(visitor: Visitor, old: int, new: int, way: str) -> None:
    """Change the master from the list of brokers on, and wait until the new one serves."""
    visitor.link("Brokers")
    before = visitor.clicks
    visitor.link(BROKER)
    visitor.link("Master")
    assert f"broker id {old}" in visitor.text and "In-sync set" in visitor.text
    look(visitor, f"master-{way}")
    visitor.choose("to", str(new))
    visitor.press("Preview")
    assert f"Broker id {new} (" in visitor.text and f"in place of broker id {old} (" in visitor.text
    assert f"cluster {way} {BROKER}" in visitor.text
    look(visitor, f"master-{way}-preview")
    visitor.click("main form.confirm button")
    assert visitor.clicks - before <= 5
    visitor.wait_for("the name servers know it, so that producers find it")
    wait_until(lambda: "running" not in visitor.text, "end of the change", 60, lambda: visitor.text)
    assert f"From broker id {old} to broker id {new}: ✓ done" in " ".join(visitor.text.split()), visitor.text
    look(visitor, f"master-{way}-done")


def test_an_elected_master_hands_over_and_takes_no_other_one(
    running: Running, tmp_path: Path, visitor_of: Callable[[str], Visitor]
) -> None:
    """With etcd: to a slave and back; a member that is stopped is not offered."""
    pytest.importorskip("aetcd")
    (etcd,) = start_etcd(running, tmp_path / "etcd", 1)
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    settings = {"enableControllerMode": "true", "electionEngine": "etcd", "etcdEndpoints": etcd.endpoint}
    settings |= {"etcdLeaseSeconds": "4", "mappedFileSizeCommitLog": "1048576"}
    brokers = [running(GantryServer.broker(tmp_path / "one", namesrv, settings=settings))]
    visitor = visitor_of(namesrv)
    visitor.page.goto(f"{visitor.page.url}brokers/{BROKER}/master")
    reload_until(visitor, "accepted")
    assert "No other member of the in-sync set could take over now" in visitor.text
    brokers.append(running(GantryServer.broker(tmp_path / "two", namesrv, settings=settings)))
    reload_until(visitor, "broker id 2, 127.0.0.1")
    change_master(visitor, 1, 2, "handover")
    visitor.link("To the set")
    reload_until(visitor, "broker id 1, 127.0.0.1")
    change_master(visitor, 2, 1, "handover")
    brokers[1].stop()
    visitor.link("To the set")
    reload_until(visitor, "No other member of the in-sync set could take over now")


def test_the_controller_replaces_a_java_master(
    running: Running, tmp_path: Path, visitor_of: Callable[[str], Visitor]
) -> None:
    brokers = ElectedSet(running, tmp_path)
    brokers.start("java1")
    brokers.wait_for_master("java1")
    brokers.start("java2")
    brokers.wait_for_set("java1", "java2")
    visitor = visitor_of(brokers.namesrv)
    visitor.link("Brokers")
    reload_until(visitor, "slave 2")
    old, new = brokers.number("java1"), brokers.number("java2")
    change_master(visitor, old, new, "promote")
    brokers.wait_for_master("java2")


def test_a_broker_that_is_gone_is_missed_no_longer(
    running: Running, tmp_path: Path, visitor_of: Callable[[str], Visitor]
) -> None:
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv
    brokers = {
        name: running(GantryServer.broker(tmp_path / name, namesrv, settings={"brokerName": name}))
        for name in ("broker-a", "broker-b")
    }
    visitor = visitor_of(namesrv)
    home = visitor.page.url
    reload_until(visitor, "2 / 2")
    brokers["broker-b"].stop()
    reload_until(visitor, "Broker broker-b is not registered any more.")
    visitor.clicks = 0
    visitor.link("Broker broker-b is not registered any more.")
    look(visitor, "gone-broker")
    visitor.press("Stop missing this broker")
    assert "Last registered" in visitor.text
    look(visitor, "gone-broker-preview")
    visitor.click("main form.confirm button")
    assert visitor.clicks <= 3
    assert "broker-b is not missed any more." in visitor.text
    visitor.page.goto(home)
    assert "broker-b is not registered any more" not in visitor.text and "1 / 1" in visitor.text
    again = running(GantryServer.broker(tmp_path / "again", namesrv, settings={"brokerName": "broker-b"}))
    reload_until(visitor, "2 / 2")
    again.stop()


@pytest.mark.parametrize("kind", ["ours", "5.3.3"])
def test_a_master_with_a_fixed_role_is_not_changed(
    request: pytest.FixtureRequest, visitor_of: Callable[[str], Visitor], kind: str
) -> None:
    servers = request.getfixturevalue("ours") if kind == "ours" else request.getfixturevalue("java_servers")(kind)
    visitor = visitor_of(servers.namesrv)
    visitor.link("Brokers")
    visitor.click("main tbody a")
    visitor.link("Master")
    assert "is fixed by its settings (brokerRole)" in visitor.text
    assert visitor.page.locator("main form").count() == 0


DRAINED = {
    "timerWheelEnable": "true",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    "transactionCheckMax": "999",
}
MESSAGES = 30


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run *work* in another thread: Playwright has an event loop in this one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result(120)


async def fill(namesrv: str) -> None:
    """Leave messages, a message for another try, a popped one, a delayed one and an undecided transaction."""
    async with Client(namesrv) as client, client.admin as admin:
        await admin.create_topic_in(TopicConfig("Orders", read_queues=4, write_queues=4))
        await admin.create_topic_in(TopicConfig("Jobs", read_queues=1, write_queues=1))
        await client.wait_ready("Orders")
        await client.wait_ready("Jobs")
        producer = client.producer("shop")
        for number in range(MESSAGES):
            await producer.send(Message("Orders", b"%d" % number))
        await producer.send(Message("Orders", b"later", delay_level=4))  # 30 s
        decider = client.transaction_producer("payers", lambda message: TransactionState.UNKNOWN)
        async with decider.transaction(Message("Orders", b"half")) as transaction:
            transaction.state = TransactionState.UNKNOWN
        await producer.send(Message("Jobs", b"job"))
        async with client.pop_consumer("workers", "Jobs", consume_from="first", invisible_s=10) as popping:
            while not await popping.pop(poll_s=2):
                pass
    await consume(namesrv, 10)


async def consume(namesrv: str, most: int) -> None:
    """Consume up to *most* messages of Orders as the group billing."""
    async with Client(namesrv) as client, client.consumer("billing", "Orders", consume_from="first") as consumer:
        taken = 0
        async for _ in consumer:
            taken += 1
            if taken == most:
                break


async def finish(namesrv: str, stop: threading.Event) -> None:
    """Decide the transaction, and consume what is there, until *stop* is set."""
    async with Client(namesrv) as client:
        client.transaction_producer("payers", lambda message: TransactionState.COMMIT)
        async with (
            client.consumer("billing", "Orders", consume_from="first") as consumer,
            client.pop_consumer("workers", "Jobs", consume_from="first") as popping,
        ):
            consuming = asyncio.ensure_future(consumer.run(lambda message: None))
            while not stop.is_set():
                for each in await popping.pop(poll_s=1):
                    await popping.ack(each)
            consuming.cancel()


@pytest.mark.parametrize("kind", ["ours", "5.3.3"])
def test_a_broker_is_drained(running: Running, tmp_path: Path, visitor_of: Callable[[str], Visitor], kind: str) -> None:
    """Close it, see what is left, stop it only when nothing is, and open it again."""
    if kind == "ours":
        namesrv = running(GantryServer.both(tmp_path / "servers", settings=DRAINED)).namesrv
    else:
        namesrv = running(JavaNameServer(kind, tmp_path / "namesrv")).address
        running(JavaBroker(kind, tmp_path / "broker", namesrv, settings=DRAINED, keep=False))
    run(fill(namesrv))
    visitor = visitor_of(namesrv)
    visitor.link("Brokers")
    before = visitor.clicks
    visitor.click("main tbody a")
    visitor.link("Drain")
    assert "open for writing" in visitor.text
    visitor.press("Close for writing")
    assert "6 → 4" in visitor.text and "brokerPermission=4" in visitor.text
    assert ("also after a restart" in visitor.text) is (kind != "ours")
    look(visitor, f"drain-preview-{kind}")
    visitor.click("main form.confirm button")
    assert visitor.clicks - before <= 4
    visitor.wait_for("It must not be stopped yet:")
    reload_until(visitor, "billing")  # a Java broker stores the undecided half message again at each check
    row = visitor.page.locator("tr", has_text="billing").inner_text().split()
    assert MESSAGES - 10 <= int(row[1]) < MESSAGES and row[2] == "0", row  # the last one taken is not committed
    look(visitor, f"drain-left-{kind}")
    assert "transactions are undecided" in visitor.text and "may be stopped now" not in visitor.text
    stop = threading.Event()
    with ThreadPoolExecutor(1) as thread:
        work = thread.submit(asyncio.run, finish(namesrv, stop))
        try:
            wait_until(lambda: "it may be stopped now" in visitor.text, "an empty broker", 120, lambda: visitor.text)
        finally:
            stop.set()
            work.result(60)
    look(visitor, f"drain-empty-{kind}")
    visitor.press("Open for writing")
    visitor.click("main form.confirm button")
    visitor.wait_for("is open for writing")


@pytest.mark.parametrize("kind", ["ours", "5.3.3"])
def test_definitions_are_downloaded_changed_and_uploaded(
    request: pytest.FixtureRequest, tmp_path: Path, visitor_of: Callable[[str], Visitor], kind: str
) -> None:
    servers = request.getfixturevalue("ours") if kind == "ours" else request.getfixturevalue("java_servers")(kind)
    topic, group = f"Imported{os.getpid()}", f"importers{os.getpid()}"
    visitor = visitor_of(servers.namesrv)
    visitor.link("Brokers")
    visitor.link("Export or import topics and groups")
    with visitor.page.expect_download() as download:
        visitor.link("Download")
    file = tmp_path / "definitions.json"
    download.value.save_as(file)
    document = json.loads(file.read_text())
    document["topics"][topic] = {"read_queues": 3, "write_queues": 3}
    document["groups"][group] = {"retry_max_times": 5}
    file.write_text("{ no JSON")
    visitor.page.set_input_files("main input[type=file]", file)
    visitor.press("Preview")
    assert "line 1, column 3 is not JSON" in visitor.text
    file.write_text(json.dumps(document))
    visitor.clicks = 0
    visitor.page.set_input_files("main input[type=file]", file)
    visitor.press("Preview")
    assert topic in visitor.text and group in visitor.text and "read_queues 3" in visitor.text
    assert visitor.page.locator(".numbers strong").first.inner_text() == "2"
    look(visitor, f"definitions-preview-{kind}")
    visitor.click("main form.confirm button")
    assert visitor.clicks <= 2
    visitor.wait_for("2 of 2 changes have ended.")
    wait_until(lambda: "✓ done" in visitor.text, "end of the import", 60, lambda: visitor.text)
    look(visitor, f"definitions-results-{kind}")
    visitor.search(topic)
    visitor.click(f"main a[href$='topics/{topic}']")
    assert topic in visitor.text
    visitor.link("Brokers")
    visitor.link("Export or import topics and groups")
    look(visitor, f"definitions-{kind}")
    document["topics"][topic]["read_queues"] = 1
    file.write_text(json.dumps(document))
    visitor.page.set_input_files("main input[type=file]", file)
    visitor.press("Preview")
    visitor.link("Cancel")
    assert "Import definitions" in visitor.text
