"""Operators' tasks at servers, in the web console: change an elected master, miss a broker that is gone no longer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from elected_set import BROKER, ElectedSet
from etcd_servers import start_etcd
from harness import GantryServer, Process
from harness.console import GantryConsole, axe_script, chromium
from polling import wait_until
from test_console import SIZES, Site, Visitor

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
    assert "broker-b" not in visitor.text and "1 / 1" in visitor.text
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
