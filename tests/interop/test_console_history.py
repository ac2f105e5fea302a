"""The history in Chromium: a file of days is read, the charts share a cursor, the numbers can be taken elsewhere."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filled_history import fill_history
from harness.console import GantryConsole, axe_script, chromium

from gantrymq.client import Client, GroupConfig, Message, TopicConfig
from gantrymq.client.admin import OffsetTarget
from gantrymq_console.history.reading import Mark

pytestmark = pytest.mark.interop

MIN_MS = 60_000
HOUR_MS = 60 * MIN_MS
LONG_OLD, LONG_NEW = (pytest.param(version, marks=pytest.mark.long) for version in ("4.9.7", "5.5.0"))


@pytest.fixture(scope="module", params=["ours", "5.3.3", LONG_OLD, LONG_NEW])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a console that ran for 50 hours, with a pause, until a minute ago."""
    if request.param == "ours":
        namesrv = request.getfixturevalue("ours").namesrv
    else:
        namesrv = request.getfixturevalue("java_servers")(request.param).namesrv
    scratch = tmp_path_factory.mktemp("console")
    now_ms = int(time.time() * 1000)
    (scratch / "console-state").mkdir()
    fill_history(
        scratch / "console-state",
        now_ms - 50 * HOUR_MS,
        now_ms - MIN_MS,
        {
            ("cluster", "", "in"): lambda at: 300 + at // MIN_MS % 100,
            ("cluster", "", "out"): lambda at: 500 + at // MIN_MS % 100,
            ("topic", "Orders", "in"): lambda at: 30.0,
            ("group", "billing", "lag"): lambda at: 4711.0 if now_ms - at < 20 * MIN_MS else at // MIN_MS % 50,
            ("group", "billing", "late_s"): lambda at: (at - now_ms) / 1000 + 1200 if now_ms - at < 20 * MIN_MS else 1,
            ("group", "billing", "out"): lambda at: 12.5,
            ("group", "billing", "retries"): lambda at: 0.0,
            ("group", "billing", "dead_letters"): lambda at: 3.0,
        },
        [Mark(now_ms - 20 * MIN_MS, "group_silent", "group", "billing")],
        [(now_ms - 40 * MIN_MS, now_ms - 30 * MIN_MS)],
    )
    with GantryConsole(scratch, namesrv) as console:
        request.getfixturevalue("run_async")(_fill(namesrv))
        yield console.url


@pytest.fixture(scope="session")
def run_async() -> Any:
    """Run a coroutine in a thread of its own, as Playwright has an event loop in the test's."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    def run(work: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(asyncio.run, work).result(90)

    return run


async def _fill(namesrv: str) -> None:
    async with Client(namesrv) as client, client.admin as admin:
        await admin.create_topic_in(TopicConfig("Orders", read_queues=4, write_queues=4))
        await client.wait_ready("Orders")
        for _ in range(3):
            await client.producer("shop").send(Message("Orders", b"x"))
        await admin.create_group_in(GroupConfig("billing"))
        await admin.reset_offsets("billing", "Orders", OffsetTarget.earliest())


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Any, site: str) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 1000}, locale="en-GB", timezone_id="Asia/Shanghai")
    context.set_default_timeout(60_000)
    found, problems = context.new_page(), []
    found.on("pageerror", lambda error: problems.append(str(error)))
    found.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    found.goto(site)
    yield found
    assert problems == []
    context.close()


def drawn(page: Any, word: str) -> Any:
    """Return the figure of a curve after the script has drawn it."""
    figure = page.locator(f"figure[data-chart={word}]")
    figure.locator("canvas").wait_for()
    return figure


def point_at(page: Any, figure: Any, share: float) -> None:
    """Move the cursor to a place of a chart, as a share of its width."""
    over = figure.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)


def test_what_a_group_did_yesterday_at_this_time(page):
    page.get_by_role("link", name="Groups", exact=True).first.click()
    page.get_by_role("link", name="billing", exact=True).first.click()
    drawn(page, "lag")
    page.get_by_role("link", name="24 hours", exact=True).click()  # the third click
    page.get_by_role("link", name="Compare with yesterday", exact=True).click()
    assert "range=24h" in page.url and "compare=on" in page.url
    lag, late = drawn(page, "lag"), drawn(page, "late_s")
    assert "The same time one day earlier" in page.inner_text("main")
    point_at(page, lag, 0.5)
    here, there = (each.locator("[data-readout]") for each in (lag, late))
    page.wait_for_function(
        "document.querySelector('figure[data-chart=lag] [data-readout]').textContent.includes('before')"
    )
    when = re.match(r"(.*?\d\d:\d\d): \d+ \(\d+ before\)", here.inner_text())
    assert when, here.inner_text()
    assert there.inner_text() == f"{when[1]}: 1 s (1 s before)"
    page.mouse.move(0, 0)
    page.wait_for_function(
        "!document.querySelector('figure[data-chart=late_s] [data-readout]').textContent.includes('before')"
    )


def test_the_cursor_is_in_a_gap_and_at_an_event(page, site):
    page.goto(site + "history?kind=group&name=billing")
    lag, out = drawn(page, "lag"), drawn(page, "out")
    assert "1 event in this period" in page.inner_text("main")
    point_at(page, lag, 25 / 60)
    assert "unknown" in lag.locator("[data-readout]").inner_text()
    assert "unknown" in out.locator("[data-readout]").inner_text()
    times = page.request.get(site + "api/v1/history?kind=group&name=billing").json()["data"]["times"]
    happened = int(page.locator("li[data-at]").get_attribute("data-at"))
    point_at(page, lag, (happened - times[0]) / (times[-1] - times[0]))
    assert "The last member of group billing left" in out.locator(".range").inner_text()


def test_the_file_has_the_numbers(page, site):
    page.goto(site + "groups/billing")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV", exact=True).click()
    assert download.value.suggested_filename == "group-billing-1h.csv"
    head, *rows = csv.reader(Path(download.value.path()).read_text().splitlines())
    assert head[:3] == ["time", "time_ms", "lag"] and len(rows) == 360
    lags = [row[2] for row in rows]
    assert "4711" in lags and 55 <= lags.count("") <= 80  # the pause, and the start of this console


def test_charts_stay_and_go_on_while_the_page_is_refreshed(page, site):
    page.goto(site + "groups/billing")
    figure = drawn(page, "lag")
    figure.locator("canvas").evaluate("(each) => { each.dataset.mark = 'kept'; }")
    asked: list[str] = []
    page.on("response", lambda response: asked.append(response.url))
    page.wait_for_event("response", lambda response: "part=live" in response.url)
    page.wait_for_event("response", lambda response: "&after=" in response.url)
    page.wait_for_event("response", lambda response: "part=live" in response.url)
    assert figure.locator("canvas").get_attribute("data-mark") == "kept"
    sizes = [len(page.request.get(url).body()) for url in asked if "&after=" in url]
    assert max(sizes) < 5_000


def test_lists_and_home_tell_of_the_last_hour(page, site):
    page.goto(site + "groups?filter=billing")
    label = page.locator("svg.spark").first.get_attribute("aria-label")
    assert re.search(r"in the last hour: from \d+ to 4,711, last", label), label
    page.goto(site)
    text = page.inner_text("main")
    assert re.search(r"The lag of group billing grew from \d+ to [\d,]+: ", text) or "billing left" in text
    assert "The last member of group billing left" in text
    page.get_by_role("link", name="The last member of group billing left").first.click()
    assert page.url.endswith("/groups/billing#history")


def test_the_charts_of_a_console_that_has_just_started_come_by_themselves(browser, ours, tmp_path):
    with GantryConsole(tmp_path, ours.namesrv) as console:
        page = browser.new_page()
        page.goto(console.url)
        assert "The history has just begun" in page.inner_text("#history")
        assert "Nothing: " not in page.inner_text("main")
        page.locator("figure[data-chart=in] canvas").wait_for(timeout=60_000)
        assert "The history begins at" in page.inner_text("#history")
        page.close()


def test_a_console_without_a_history_says_so(browser, ours, tmp_path):
    with GantryConsole(tmp_path, ours.namesrv, "--no-history") as console:
        page = browser.new_page()
        page.goto(console.url)
        assert page.inner_text("main").count("The console was started without a history.") == 1
        assert page.locator("figure").count() == 0
        page.goto(console.url + "topics")
        assert "last hour" not in page.inner_text("main")
        page.close()


@pytest.mark.parametrize("site", ["ours"], indirect=True)  # the pages are the same for a Java broker
def test_pages_with_charts_are_accessible_and_fit(browser, site):
    axe, found = axe_script(), []
    paths = (
        "",
        "groups/billing?compare=on",
        "history?range=30d",
        "history?view=table&kind=group&name=billing",
        "topics",
    )
    for width, scheme in ((1280, "light"), (1280, "dark"), (360, "dark")):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        for path in paths:
            page.goto(site + path)
            if "view=" not in path and path != "topics":
                page.locator("figure canvas").first.wait_for()
            page.evaluate(axe)
            result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
            found += [
                f"{width} {scheme} /{path}: {each['id']}: {each['nodes'][0]['html'][:120]}"
                for each in result["violations"]
            ]
            inner, outer = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
            found += [f"{width} /{path}: {inner} px wide"] if inner > outer else []
        context.close()
    assert found == [], "\n".join(found)


@pytest.mark.parametrize("site", ["ours"], indirect=True)
def test_charts_are_images_without_a_script(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site + "groups/billing")
    assert page.locator("svg.chart").count() == 5 and "UTC" in page.inner_text("figure[data-chart=lag]")
    page.get_by_role("link", name="As a table", exact=True).click()
    assert "4,711" in page.inner_text("main table")
    context.close()
