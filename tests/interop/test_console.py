"""The web console in Chromium, with real clicks, for our broker and for Java brokers.

The tasks are those of operators. Each has a limit of clicks: a click, a choice or Enter counts, typing does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from conftest import SOON
from google.protobuf import descriptor_pb2
from harness import GantryServer, JavaBroker
from harness.console import GantryConsole, axe_script, chromium
from polling import until, wait_until

from gantrymq.cli import main
from gantrymq.client import Client, Message, TopicConfig
from gantrymq.errors import GantryError
from gantrymq.loose_json import dumps
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest

pytestmark = pytest.mark.interop

T = TypeVar("T")

SIZES = {"wide": (1280, 900), "tablet": (820, 1100), "phone": (360, 740)}
SCREENS = os.environ.get("GANTRYMQ_SCREENS")  # folder for a picture of each page
MESSAGES = 20
LETTERS = 3
TRIED = "Tried"  # topic of messages that are sent to see whether a broker accepts them
# Rules that axe-core cannot decide in a browser without a person are reported as incomplete, not as violations.
STATES = (
    "",
    "search",
    "search?q=order-7",
    "topics",
    "topics?filter=nothing-has-this-name",
    "topics/Orders",
    "topics/Orders/messages",
    "topics/Orders/messages?text=nothing-has-this-text",
    "topics/Orders/tail",
    "topics/Orders/groups",
    "topics/Orders/producers",
    "topics/Orders/settings",
    "topics/Orders/send",
    "topics/NoSuchTopic",
    "new/topic",
    "groups",
    "groups/billing",
    "groups/billing/queues",
    "groups/billing/members",
    "groups/billing/offsets",
    "groups/billing/settings",
    "groups/billing/dlq",
    "groups/shipping/dlq",
    "new/group",
    "bulk/groups",
    "saved",
    "findings",
    "clients",
    "delayed",
    "transactions",
    "brokers",
    "nameservers",
    "audit",
    "about",
    "nothing-here",
)


class Onlookers:
    """An event loop in a thread of its own, as Playwright has one in the test's; and a member of a group on it."""

    def __init__(self, namesrv: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = Client(namesrv)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(90)

    async def join(self) -> None:
        """Consume Orders as the group onlookers."""
        await self._client.start()
        consumer = self._client.consumer("onlookers", "Orders")
        self._consuming = asyncio.ensure_future(consumer.run(lambda message: None))

    def stop(self) -> None:
        """Leave the group and end the loop."""
        self._consuming.cancel()
        self.run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class Site:
    """A console for a cluster with some topics and groups."""

    def __init__(self, console: GantryConsole, namesrv: str) -> None:
        self.url = console.url
        self.namesrv = namesrv
        self.ids: list[str] = []
        self.run: Any = None  # runs a coroutine

    async def fill(self) -> None:
        """Create topics, messages, groups behind, and dead letters."""
        async with Client(self.namesrv) as client, client.admin as admin:
            await admin.create_topic_in(TopicConfig("Orders", read_queues=4, write_queues=4))
            await client.wait_ready("Orders")
            producer = client.producer("shop")
            sent = []
            for number in range(MESSAGES):
                body = b'{"order": %d, "total": 9007199254740993, "note": "<b>4711</b>"}' % number
                sent.append(await producer.send(Message("Orders", body, tags="A", keys=f"order-{number}")))
            self.ids = [each.message_id for each in sent]
            for group, count in (("billing", MESSAGES - 5), ("archive", 1)):
                async with asyncio.timeout(60), client.consumer(group, "Orders", consume_from="first") as consumer:
                    taken = 0
                    async for _ in consumer:
                        taken += 1
                        if taken == count:
                            break
            address = (await admin.masters())[0]
            heartbeat = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": "shipping"}]})
            await admin.request(address, RequestCode.HEART_BEAT, body=heartbeat)
            for each in sent[:LETTERS]:
                back = ConsumerSendMsgBackRequest(
                    offset=int(each.offset_id[16:], 16), group="shipping", delay_level=-1, origin_topic="Orders"
                )
                await admin.request(address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
            await client.wait_ready("%DLQ%shipping")


LONG_JAVA, LONG_OLD, LONG_NEW = (
    pytest.param(version, marks=pytest.mark.long) for version in ("5.3.3", "4.9.7", "5.5.0")
)
OF_ALL_PAGES = pytest.mark.parametrize("site", ["ours", LONG_JAVA, LONG_OLD, LONG_NEW], indirect=True)
"""For tests of the pages' style and scripts, which are the same for a Java broker."""


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of ours and one of Java in one cluster; the address of their name server, which is ours."""
    scratch = tmp_path_factory.mktemp("mixed")
    with (
        GantryServer.name_server(scratch / "namesrv") as namesrv,
        JavaBroker("5.3.3", scratch / "java", namesrv.namesrv, settings=SOON, keep=False),
        GantryServer.broker(scratch / "ours", namesrv.namesrv, settings={"brokerName": "gantry-a"}),
    ):
        yield namesrv.namesrv


@pytest.fixture(scope="module", params=["ours", "5.3.3", "mixed", LONG_OLD, LONG_NEW])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if request.param in ("ours", "mixed"):
        found = request.getfixturevalue(request.param)
        namesrv = found if request.param == "mixed" else found.namesrv
    else:
        namesrv = request.getfixturevalue("java_servers")(request.param).namesrv
    scratch = tmp_path_factory.mktemp("console")
    (scratch / "shop.desc").write_bytes(_descriptors())
    decoder = f"Encoded=protobuf:{scratch / 'shop.desc'}#shop.Order"
    with GantryConsole(scratch, namesrv, "--decoder", decoder) as console:
        made, onlookers = Site(console, namesrv), Onlookers(namesrv)
        made.run = onlookers.run
        onlookers.run(made.fill())
        onlookers.run(onlookers.join())
        yield made
        onlookers.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


class Visitor:
    """A person at a browser, whose clicks are counted."""

    def __init__(self, context: Any, site: Site) -> None:
        self.page = context.new_page()
        self.clicks = 0
        self._problems: list[str] = []
        self.page.on("console", lambda message: self._problems.append(message.text) if _is_bad(message) else None)
        self.page.on("pageerror", lambda error: self._problems.append(str(error)))
        self.page.on("request", lambda asked: self._requests.add(urlsplit(asked.url).netloc))
        self._requests: set[str] = set()
        self.site = site
        self.page.goto(site.url)

    def click(self, selector: str) -> None:
        """Click on the first visible element."""
        self.page.locator(selector).first.click()
        self._clicked()

    def link(self, text: str) -> None:
        """Follow a link."""
        self.page.get_by_role("link", name=text, exact=True).first.click()
        self._clicked()

    def press(self, text: str) -> None:
        """Press a button of the main part."""
        self.page.locator("main").get_by_role("button", name=text, exact=True).first.click()
        self._clicked()

    def choose(self, name: str, value: str) -> None:
        """Choose an option of the form that is used."""
        self.page.locator(f"main select[name={name}]").first.select_option(value)
        self.clicks += 1

    def search(self, text: str) -> None:
        """Type into the search box and press Enter."""
        self.page.fill("#q", text)
        with self.page.expect_navigation():
            self.page.press("#q", "Enter")
        self.clicks += 1

    def _clicked(self) -> None:
        """Count a click, and wait for the whole page: Playwright waits only until it begins."""
        self.clicks += 1
        self.page.wait_for_load_state("domcontentloaded")

    @property
    def text(self) -> str:
        """The text of the main part."""
        self.page.wait_for_load_state("domcontentloaded")
        return str(self.page.inner_text("main"))

    def wait_for(self, text: str) -> None:
        """Wait until the main part contains *text*."""
        self.page.locator("main", has_text=text).wait_for()

    def check(self) -> None:
        """Check that nothing failed in the browser and no other host was asked."""
        assert self._problems == []
        assert self._requests <= {urlsplit(self.site.url).netloc}


def _is_bad(message: Any) -> bool:
    # A page with status 404 or 400 is an answer that a test may ask for.
    return message.type in ("error", "warning") and "the server responded with a status of 4" not in message.text


@pytest.fixture
def visitor(browser: Any, site: Site) -> Iterator[Visitor]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale="en-GB", timezone_id="Asia/Shanghai")
    context.set_default_timeout(60_000)
    found = Visitor(context, site)
    yield found
    found.check()
    context.close()


def test_who_consumed_the_message_with_a_key(visitor):
    visitor.search("order-7")
    visitor.click("main table a")
    assert visitor.clicks <= 4
    assert "Who consumed it" in visitor.text and "billing" in visitor.text and "archive" in visitor.text
    assert "order-7" in visitor.page.title()


def test_what_is_the_message_with_a_unique_id(visitor, site):
    visitor.search(site.ids[3])  # leads to the message if only one has the id
    visitor.page.wait_for_url("**/messages/**")
    assert visitor.clicks <= 2
    assert '"total": 9007199254740993' in visitor.text and "order-3" in visitor.text


def test_why_a_group_gets_nothing(visitor):
    visitor.search("archive")
    visitor.click("main a[href$='groups/archive']")
    assert visitor.clicks <= 3
    assert re.search(r"[Nn]o member", visitor.text)


def test_which_groups_are_furthest_behind(visitor):
    visitor.link("Home")
    assert visitor.clicks <= 1
    visitor.wait_for("archive")


def test_a_group_reads_again_from_a_time_after_a_preview(visitor):
    visitor.search("billing")
    visitor.click("main a[href$='groups/billing']")
    visitor.link("Offsets")
    visitor.choose("target", "first")
    visitor.press("Preview")
    assert "Orders" in visitor.text
    visitor.click("main form.confirm button")
    assert visitor.clicks <= 6
    assert "billing" in visitor.text
    assert visitor.page.locator(".banner.good").count() == 1, visitor.text


def test_dead_letters_of_the_last_hour_are_sent_again(visitor):
    visitor.search("shipping")
    visitor.click("main a[href$='groups/shipping']")
    visitor.link("Dead letters")
    visitor.choose("scope", "1")
    visitor.press("Send again")
    visitor.click("main form.confirm button")
    assert visitor.clicks <= 6
    visitor.wait_for("ended")
    assert f"{LETTERS} sent and 0 failed" in visitor.text
    visitor.link("What became of them")
    assert visitor.clicks <= 7
    assert visitor.text.count("by local") == LETTERS and visitor.text.count("waits for another try") == LETTERS
    visitor.link("to %RETRY%shipping")
    assert "Sent again from a dead letter" in visitor.text
    visitor.page.get_by_role("link", name=re.compile("Dead letter of group shipping")).first.click()
    visitor.page.get_by_role("link", name="to %RETRY%shipping").first.wait_for()


def test_a_second_sending_of_all_dead_letters_sends_none(visitor):
    """After the test before this one."""
    visitor.page.goto(visitor.site.url + "groups/shipping/dlq")
    assert "Every letter of this time was sent again." in visitor.text
    visitor.link("all")
    visitor.choose("scope", "all")
    visitor.press("Send again")
    assert "all of the chosen letters were sent again before" in visitor.text


def test_a_queue_that_nobody_reads_is_seen_without_reading(visitor):
    visitor.search("archive")
    visitor.click("main a[href$='groups/archive']")
    assert visitor.clicks <= 2
    stuck = visitor.page.locator(".bars li.unread")
    assert stuck.count() and stuck.first.locator(".sign-of").inner_text() == "✗"
    told = stuck.first.locator("svg").get_attribute("aria-label")
    assert "messages wait and nobody reads it" in told and " 0 in flight" in told
    assert (
        visitor.page.evaluate("getComputedStyle(document.querySelector('.bars .unread .fill')).outlineStyle") == "solid"
    )
    assert "do not move" in visitor.page.locator("details:has(.bars) summary").first.inner_text()


def test_readers_of_queues_are_known_from_brokers_or_members(visitor, site):
    """A Java broker does not report them: the console asks the members."""

    def known() -> bool:
        visitor.page.goto(site.url + "groups/onlookers")
        return visitor.page.locator(".bars .done .reader", has_text="A").count() >= 4

    wait_until(known, "owner of the queues, which are balanced every 20 s")
    assert visitor.page.locator(".legend a").count() == 1 and "reader unknown" not in visitor.text
    visitor.click(".legend a")
    assert "/member?id=" in visitor.page.url and "Orders" in visitor.text


def test_the_picture_of_the_cluster_leads_to_a_broker(visitor, site):
    visitor.link("Brokers")
    boxes = visitor.page.locator(".picture a")
    names = visitor.page.locator(".names figcaption a").all_inner_texts()
    assert boxes.count() == len(names) == site.run(_count_brokers(site.namesrv))
    visitor.click(".picture a")
    assert visitor.clicks <= 2 and visitor.page.url.endswith(f"/brokers/{names[0]}")
    assert names[0] in visitor.page.inner_text("h1")


async def _count_brokers(namesrv: str) -> int:
    async with Client(namesrv) as client, client.admin as admin:
        return sum(len(each.addresses) for each in (await admin.clusters()).brokers)


def test_the_messages_of_a_topic_are_seen_by_queue(visitor, site):
    visitor.page.goto(site.url + "topics/Orders")
    shown = visitor.page.locator(".shares li:not(.of-broker) svg rect").count()
    queues = visitor.page.locator(".shares li:not(.of-broker)").count()
    assert queues >= 4 and 0 < shown <= queues
    assert "% of the topic" in visitor.text and "unknown number" not in visitor.text


def test_on_a_phone_pictures_and_navigation_scroll_in_their_own_boxes(visitor, site):
    visitor.page.set_viewport_size({"width": 360, "height": 740})
    for path in ("groups/archive", "topics/Orders", "brokers"):
        visitor.page.goto(site.url + path)
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 360, path
    inner, outer = visitor.page.evaluate(
        "(({scrollWidth, clientWidth}) => [scrollWidth, clientWidth])(document.querySelector('nav ul'))"
    )
    assert inner > outer  # the rest of it is told by an arrow
    assert "›" in visitor.page.evaluate("getComputedStyle(document.querySelector('nav'), '::after').content")


def test_on_paper_there_are_facts_without_navigation(visitor, site):
    visitor.page.emulate_media(media="print", color_scheme="dark")
    visitor.page.goto(site.url + "brokers")
    for each in ("header", "nav", "main form", ".pager", "footer button"):
        assert not any(found.is_visible() for found in visitor.page.locator(each).all()), each
    assert visitor.page.locator(".as-text td").first.is_visible()  # a fold on the screen
    assert visitor.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_a_message_on_paper_is_whole_and_not_wider_than_the_paper(visitor, site):
    visitor.page.set_viewport_size({"width": 800, "height": 1000})
    visitor.page.emulate_media(media="print")
    visitor.page.goto(site.url + f"messages/{site.ids[7]}?topic=Orders")
    visitor.page.evaluate(
        "document.querySelector('.lanes').setAttribute('viewBox', '0 0 1800 300');"
        "document.querySelector('.lanes').setAttribute('width', '1800')"
    )  # as of a message with 15 events
    assert visitor.page.evaluate("document.documentElement.scrollWidth") <= 800
    sections = visitor.page.locator("details.rest")
    assert sections.count() == 3
    for each in sections.all():
        assert each.locator("> :not(summary)").first.is_visible(), each.text_content()
    assert not visitor.page.locator(".page-link").is_visible()


def test_undecided_transactions_that_a_broker_does_not_list_are_unknown(visitor, site, request):
    visitor.page.goto(site.url + "transactions")
    of = request.node.callspec.params["site"]
    told = {"ours": "0 transactions are undecided", "mixed": "At least 0 transactions are undecided"}
    assert told.get(of, "How many transactions are undecided is unknown") in visitor.text
    assert of in told or "0 transactions" not in visitor.text


BROKEN_WORDS = """[...document.querySelectorAll(".scroll td, .scroll tbody th")].flatMap((cell) => {
  const found = [], range = document.createRange();
  const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const word of node.data.matchAll(/[\\w.:@#%]+/g)) {
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set([...range.getClientRects()].map((each) => Math.round(each.top)));
      if (lines.size > 1 && word[0].length < 40) found.push(word[0]);
    }
  }
  return found;
})"""


@pytest.mark.parametrize("size", ["wide", "tablet"])
@OF_ALL_PAGES
def test_lists_break_no_addresses_numbers_and_names(visitor, site, size):
    """One long client id must not take the room of the others."""
    client = Client(site.namesrv, instance_name="x" * 600)

    async def join():
        await client.start()
        await client.producer("long").send(Message("Long", b"long"))  # of Orders, other tests count the messages

    def long_client() -> bool:
        visitor.page.goto(site.url + "clients")
        return "xxxx" in visitor.text

    site.run(join())
    try:
        visitor.page.set_viewport_size(dict(zip(("width", "height"), SIZES[size], strict=True)))
        for path in ("topics", "groups", "brokers", "groups/onlookers/members", "topics/Orders/messages"):
            visitor.page.goto(site.url + path)
            assert visitor.page.evaluate(BROKEN_WORDS) == [], path
        heights = "[...document.querySelectorAll('tbody tr')].map((each) => each.offsetHeight)"
        wait_until(long_client, "client in the list, which may be 20 s old")
        assert visitor.page.evaluate(BROKEN_WORDS) == []
        assert max(visitor.page.evaluate(heights)) < 160
    finally:
        site.run(client.close())


VISIBLE = """(selector) => {
  const box = document.querySelector(selector).getBoundingClientRect();
  return box.height > 0 && box.top >= 0 && box.bottom <= innerHeight;
}"""


def test_body_and_verdicts_are_seen_without_scrolling(visitor, site):
    visitor.search(site.ids[7])
    visitor.page.wait_for_url("**/messages/**")
    assert visitor.clicks <= 1
    for selector in ("section.body .json > details > div > .v", "section.consumers tbody tr td"):
        assert visitor.page.evaluate(VISIBLE, selector), selector
    left, right = (visitor.page.locator(f"section.{each}").bounding_box() for each in ("body", "consumers"))
    assert abs(left["y"] - right["y"]) < 2 and left["x"] + left["width"] <= right["x"]
    visitor.page.set_viewport_size({"width": 990, "height": 900})
    left, right = (visitor.page.locator(f"section.{each}").bounding_box() for each in ("body", "consumers"))
    assert left["y"] + left["height"] <= right["y"]  # one column


def test_json_is_folded_by_a_click(visitor, site):
    visitor.search(site.ids[7])
    assert "9007199254740993" in visitor.text
    visitor.click(".json summary")
    assert "9007199254740993" not in visitor.text and visitor.clicks <= 2
    visitor.link("Text")
    assert '"note": "<b>4711</b>"' in visitor.text


def test_a_time_line_is_drawn_with_text_beside_it(visitor, site):
    visitor.search(site.ids[7])
    picture = visitor.page.get_by_role("img", name=re.compile("^Time line of"))
    assert picture.is_visible() and "billing" in picture.text_content() and "archive" in picture.text_content()
    listed = visitor.page.locator("ol.timeline li")
    assert picture.locator("g").count() >= 2 and "Stored at" in "".join(listed.all_inner_texts())


@pytest.mark.parametrize("script", [True, False])
def test_tabs_of_a_message_on_a_phone(browser, site, script):
    context = browser.new_context(
        viewport={"width": 360, "height": 740}, locale="en-GB", java_script_enabled=script, has_touch=True
    )
    page = context.new_page()
    page.goto(site.url + f"messages/{site.ids[7]}?topic=Orders")
    body, verdicts = page.locator("section.body"), page.locator("section.consumers")
    assert body.is_visible() and not verdicts.is_visible()
    page.get_by_text("Who consumed it", exact=True).first.click()
    assert verdicts.is_visible() and not body.is_visible() and "billing" in verdicts.inner_text()
    choice = page.get_by_role("radio", name="Who consumed it")
    assert choice.is_checked()
    choice.press("ArrowUp")
    assert body.is_visible() and page.get_by_role("radio", name="Body").is_checked()
    context.close()


def test_a_body_in_another_charset(visitor, site):
    text = "订单已付款"
    sent = site.run(_send_body(site.namesrv, text.encode("gbk")))
    visitor.page.goto(f"{site.url}messages/{sent}?topic=Bodies")
    assert text not in visitor.text
    visitor.choose("charset", "gbk")
    visitor.click("section.body form button")
    assert text in visitor.text and "charset=gbk" in visitor.page.url and visitor.clicks <= 2


def test_a_place_in_a_large_body_is_found(visitor, site):
    lines = "".join(f"line {number:06} <b>of a long text</b>\n" for number in range(30_000))
    sent = site.run(_send_body(site.namesrv, lines.encode()))
    visitor.page.goto(f"{site.url}messages/{sent}?topic=Bodies")
    assert "line 025000" not in visitor.text
    visitor.page.fill("main input[name=find]", "line 025000")
    visitor.page.press("main input[name=find]", "Enter")
    visitor.page.locator("main", has_text="1 place.").wait_for()
    visitor.click("section.hits a")
    assert "line 024999 <b>" in visitor.text and visitor.page.locator("pre mark").inner_text() == "line 025000"
    assert visitor.clicks <= 1  # and Enter
    visitor.link("Last")
    assert "line 029999" in visitor.text
    visitor.link("First")
    assert "line 000000" in visitor.text and "line 025000" not in visitor.page.inner_text("pre")


def _descriptors() -> bytes:
    """Return a set of descriptors as protoc writes it."""
    found = descriptor_pb2.FileDescriptorSet()
    file = found.file.add(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=9, label=1)  # string
    order.field.add(name="total", number=2, type=3, label=1)  # int64
    return bytes(found.SerializeToString())


async def _send_body(namesrv: str, body: bytes, topic: str = "Bodies") -> str:
    """Send to a topic of its own, because other tests count messages; return the id."""
    async with Client(namesrv) as client, client.admin as admin:
        await admin.create_topic_in(TopicConfig(topic, read_queues=1, write_queues=1))
        await client.wait_ready(topic)
        return (await client.producer("shop").send(Message(topic, body))).message_id


def test_protobuf_is_decoded_by_an_option(visitor, site):
    body = b"\x0a\x04<b>7\x10\x80\x80\x80\x80\x80\x80\x80\x80\x10"  # a text and 2**60
    sent = site.run(_send_body(site.namesrv, body, "Encoded"))
    visitor.page.goto(f"{site.url}messages/{sent}?topic=Encoded")
    assert "Decoded by protobuf:shop.desc#shop.Order" in visitor.text
    assert '"order_id": "<b>7"' in visitor.text and str(2**60) in visitor.text
    visitor.link("Hexadecimal")
    assert "0a 04 3c 62 3e 37" in visitor.text and visitor.clicks <= 1


def test_a_long_id_is_cut_in_the_middle_and_copied(browser, site):
    context = browser.new_context(locale="en-GB", permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(site.url + "groups/onlookers/members")
    row = page.locator("main .id").first
    link = row.get_by_role("link")
    whole = link.inner_text()
    assert len(whole) > 24 and page.get_by_role("link", name=whole, exact=True).count() == 1
    assert link.evaluate("(each) => each.firstElementChild.scrollWidth > each.firstElementChild.clientWidth + 20")
    assert row.evaluate("(each) => getComputedStyle(each.querySelector('.cut'), '::after').content").startswith(
        f'"{whole[-8:]}"'
    )
    page.get_by_role("button", name=f"Copy {whole}").click()
    page.get_by_role("status").filter(has_text="Copied.").wait_for(state="attached")
    assert page.evaluate("navigator.clipboard.readText()") == whole
    page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")  # as on a page without HTTPS
    page.get_by_role("button", name=f"Copy {whole}").focus()
    page.keyboard.press("Enter")
    page.locator(".copy.done").wait_for()
    context.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.url + "groups/onlookers/members")
    assert page.locator("main .copy:visible").count() == 0
    assert page.locator("main .id").first.get_attribute("title")
    context.close()


def test_a_topic_is_made_and_a_message_arrives(visitor, site):
    name = f"Made{abs(hash(site.url)) % 10**6}"
    visitor.link("Topics")
    visitor.click("main a[href$='new/topic']")
    visitor.page.fill("main input[name=topic]", name)
    visitor.page.fill("main input[name=read_queues]", "8")
    visitor.press("Create the topic")
    visitor.click("main form.confirm button")
    visitor.link("Send")
    visitor.page.fill("main textarea[name=body]", "hello from a browser")
    visitor.press("Send")
    assert visitor.clicks <= 8
    assert "Sent as" in visitor.text and "hello from a browser" in visitor.text


def test_which_clients_consume_a_topic(visitor):
    visitor.search("Orders")
    visitor.click("main a[href$='topics/Orders']")
    visitor.link("Consumers")
    assert visitor.clicks <= 3
    assert "onlookers" in visitor.text and re.search(r"127\.0\.0\.1:\d+", visitor.text)
    assert "JAVA" in visitor.text or "PYTHON" in visitor.text.upper()


def test_messages_are_found_by_their_contents_and_downloaded(visitor):
    visitor.search("Orders")
    visitor.click("main a[href$='topics/Orders']")
    visitor.link("Messages")
    visitor.page.fill("main input[name=text]", '"order": 7,')
    visitor.press("Show")
    visitor.wait_for("order-7")
    with visitor.page.expect_download() as download:
        visitor.press("Download")
    assert visitor.clicks <= 5
    assert '"order": 7' in Path(download.value.path()).read_text().replace("\\", "")


REFUSALS = {
    "disk": ("minFreeDiskBytes", str(2**62), "0", "refuses messages: the disk of", "minFreeDiskBytes"),
    "permission": ("brokerPermission", "4", "6", "is closed for writing", "open it for writing"),
}
"""Setting, value that makes a broker refuse messages, value before; what home says of it, and what to do."""


@contextlib.contextmanager
def refusing(site: Site, kind: str) -> Iterator[str]:
    """Make the broker refuse messages; yield its name."""
    key, value, before, *_ = REFUSALS[kind]
    name = site.run(_set(site.namesrv, key, value))
    site.run(_until(site.namesrv, accepts=False))
    yield name
    site.run(_set(site.namesrv, key, before))
    site.run(_until(site.namesrv, accepts=True))


def look_for_the_cause(visitor, broker: str, kind: str) -> None:
    """From the home page, where it is said, to the page of the broker."""
    *_, said, advice = REFUSALS[kind]
    visitor.link("Home")
    visitor.wait_for(said)
    assert f"Broker {broker} {said}" in visitor.text and advice in visitor.text
    assert visitor.clicks <= 1
    visitor.click(f"main .banner:has-text('Broker {broker} {said}') a")
    assert visitor.page.url.endswith(f"/brokers/{broker}")
    assert (advice if kind == "disk" else "closed for writing") in visitor.text


def test_which_broker_is_closed_for_writing(visitor, site):
    with refusing(site, "permission") as broker:
        look_for_the_cause(visitor, broker, "permission")


@pytest.mark.parametrize("site", ["ours"], indirect=True)  # Java's brokers say only how full the disk is
def test_which_broker_refuses_messages_because_of_its_disk(visitor, site):
    with refusing(site, "disk") as broker:
        look_for_the_cause(visitor, broker, "disk")


async def _set(namesrv: str, key: str, value: str) -> str:
    """Change a setting of the broker while it runs; return the broker's name."""
    async with Client(namesrv) as client, client.admin as admin:
        broker = (await admin.clusters()).brokers[-1]  # of two the one of ours
        await admin.create_topic(broker.addresses[0], TopicConfig(TRIED, read_queues=1, write_queues=1))
        await admin.change_broker_settings(broker.addresses[0], {key: value})
        return broker.name


async def _until(namesrv: str, *, accepts: bool) -> None:
    """Wait until the broker accepts, or refuses, messages."""

    async def look() -> bool:
        async with Client(namesrv) as client:
            try:
                await client.producer("shop", retries=0).send(Message(TRIED, b"tried"))
            except GantryError:
                return not accepts
            return accepts

    await until(look, "broker that accepts messages" if accepts else "broker that refuses messages")


@pytest.mark.parametrize("site", ["ours"], indirect=True)  # the pages are the same for a Java broker
def test_every_page_is_accessible_and_fits(browser, site):
    """axe-core finds no violation, and no page scrolls sideways. Pictures are kept if there is a folder for them."""
    axe = axe_script()
    found: list[str] = []
    message = f"messages/{site.ids[7]}?topic=Orders"
    for size, (width, height) in SIZES.items():
        # axe-core looks at the light pages of a desktop and at the dark ones of a phone.
        schemes = ("dark", "light") if size == "wide" else ("light", "dark")
        schemes = schemes if SCREENS else schemes[1:]
        context = browser.new_context(viewport={"width": width, "height": height}, bypass_csp=True, locale="en-GB")
        page = context.new_page()
        for state in (*STATES, message, f"{message}&form=text&charset=gbk&find=total"):
            page.goto(site.url + state)
            name = re.sub(r"[^a-zA-Z0-9]+", "-", state).strip("-") or "home"
            for scheme in schemes:
                page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
                if SCREENS:
                    page.screenshot(path=Path(SCREENS, f"{size}-{scheme}", f"{name}.png"), full_page=True)
            if size != "tablet":
                page.evaluate(axe)
                result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
                found += [
                    f"{size} /{state}: {each['id']}: {each['nodes'][0]['html'][:120]}" for each in result["violations"]
                ]
            inner, outer = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            if inner > outer:
                found.append(f"{size} /{state}: {inner} px wide, the window has {outer}")
        context.close()
    assert found == [], "\n".join(found)


@OF_ALL_PAGES
def test_the_console_speaks_chinese_and_keeps_the_theme(browser, site):
    context = browser.new_context(locale="zh-CN")
    page = context.new_page()
    page.goto(site.url + "groups")
    assert page.get_attribute("html", "lang") == "zh" and "消费组" in page.inner_text("h1")
    page.click("details.menu summary")
    page.select_option("select[name=theme]", "dark")
    page.select_option("select[name=lang]", "en")
    page.click("details.menu button >> nth=0")
    assert page.get_attribute("html", "lang") == "en" and page.get_attribute("html", "data-theme") == "dark"
    assert urlsplit(page.url).path.endswith("/groups")
    context.close()


@OF_ALL_PAGES
def test_three_tasks_without_a_script(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.url)
    page.fill("#q", "order-7")
    page.press("#q", "Enter")
    page.click("main table a")
    page.locator("main", has_text="Who consumed it").wait_for()
    page.goto(site.url + "groups/billing/offsets")
    page.select_option("main form >> nth=0 >> select[name=target]", "last")
    page.click("main form >> nth=0 >> button")
    page.click("main form.confirm button")
    page.locator(".banner.good").wait_for()
    page.goto(site.url + "topics?filter=order")
    assert page.locator("main table").count() == 1
    context.close()


@OF_ALL_PAGES
def test_three_tasks_by_keyboard(browser, site):
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(site.url)
    page.keyboard.press("/")
    page.keyboard.type("order-7")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?**")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url("**/messages/**")
    assert "Who consumed it" in page.inner_text("main")
    page.keyboard.press("g")
    page.keyboard.press("g")
    page.wait_for_url("**/groups")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("?")
    assert page.locator("dialog[open]").count() == 1
    context.close()


@OF_ALL_PAGES
def test_a_page_stays_fresh_without_flicker(browser, site):
    """A refresh changes what changed, and keeps the text that a person has selected and the scroll position."""
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(site.url + "topics/Orders")
    page.evaluate("document.querySelector('main h1').dataset.mark = 'kept'")
    site.run(_send(site.namesrv))
    page.keyboard.press("r")
    page.locator("main", has_text=str(MESSAGES + 1)).wait_for()
    assert page.evaluate("document.querySelector('main h1').dataset.mark") in ("kept", None)
    context.close()


async def _send(namesrv: str) -> None:
    async with Client(namesrv) as client:
        await client.producer("shop").send(Message("Orders", b"one more"))


def test_offsets_of_three_groups_are_reset_with_a_result_for_each(visitor):
    visitor.link("Groups")
    visitor.link("Change several groups")
    for group in ("billing", "archive", "onlookers"):
        visitor.click(f"main input[name='group.{group}']")
    visitor.choose("target", "first")
    visitor.press("Preview")
    assert "The offsets in 3 rows will be set" in visitor.text
    visitor.click("main form.confirm button")
    assert visitor.clicks <= 8
    visitor.wait_for("ended")
    assert "3 done, 0 not changed, 0 not known, 0 left" in visitor.text, visitor.text


@pytest.fixture
def two_users(browser: Any, site: Site, tmp_path: Path) -> Iterator[tuple[Any, Any]]:
    """The pages of two users who have logged in at one console."""
    state, secret = tmp_path / "state", "correct horse battery"
    for name, role in (("ann", "operator"), ("bob", "viewer")):
        words = ["console", "user", "add", name, "--role", role, "--state", str(state)]
        done = CliRunner().invoke(main, words, env={"GANTRYMQ_CONSOLE_PASSWORD": secret})
        assert done.exit_code == 0, done.output
    options = ("-n", site.namesrv, "--listen", "127.0.0.1:0", "--state", str(state))
    with GantryServer("console", tmp_path, *options) as console, contextlib.ExitStack() as contexts:
        pages = []
        for name in ("ann", "bob"):
            context = contexts.enter_context(contextlib.closing(browser.new_context(locale="en-GB")))
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            page = context.new_page()
            page.goto(console.ready["console"])
            page.fill("input[name=name]", name)
            page.fill("input[name=password]", secret)
            page.locator("main button").first.click()
            page.get_by_role("link", name="Topics", exact=True).wait_for()
            pages.append(page)
        yield pages[0], pages[1]


def test_a_search_that_one_user_shares_is_opened_by_another(two_users):
    ann, bob = two_users
    ann.get_by_role("link", name="Topics", exact=True).click()
    ann.fill("main input[name=filter]", "Ord")
    ann.locator("main form.filter button").click()
    ann.locator("main", has_text="1 topic").wait_for()
    ann.locator("details.page-link summary").click()
    ann.locator("details.page-link button[data-copy-link]").click()
    ann.locator("#told", has_text="Copied.").wait_for()
    assert ann.evaluate("navigator.clipboard.readText()") == ann.url  # absolute
    ann.fill("details.page-link input[name=name]", "The orders")
    ann.check("details.page-link input[name=shared]")
    ann.locator("details.page-link form button").click()
    ann.locator("main", has_text="The orders was saved.").wait_for()
    bob.get_by_role("link", name="Saved searches").click()
    bob.locator("main", has_text="ann").wait_for()
    bob.get_by_role("link", name="The orders").click()
    bob.wait_for_url("**/topics?filter=Ord*")
    assert "Orders" in bob.inner_text("main")
    ann.goto(ann.url)
    ann.locator("main details summary").click()
    ann.get_by_role("button", name="Delete").click()
    ann.locator("main", has_text="The orders was deleted.").wait_for()
    bob.get_by_role("link", name="Saved searches").click()
    bob.locator("main", has_text="Nothing is saved yet.").wait_for()


def test_a_finding_leads_to_what_it_means(visitor):
    visitor.link("Groups")
    visitor.link("archive")
    visitor.click("main a.meaning")
    assert visitor.clicks <= 3
    anchor = urlsplit(visitor.page.url).fragment
    assert anchor == "group-nobody-online"
    assert "Start a consumer of the group" in visitor.page.inner_text(f"#{anchor}")
    assert visitor.page.locator(f"#{anchor}").evaluate("each => each.getBoundingClientRect().top < innerHeight")
