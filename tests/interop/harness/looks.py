"""Pictures of the console's pages, and their comparison with recorded ones.

A recorded picture is a quarter as wide and high as the window. For a comparison both are blurred, so that a point is
the average colour of 20 by 20 pixels of the page; a point is another one if no point within 8 pixels in the other
picture has about its colour. So a page that is one pixel further down, or has letters drawn by another Chromium, is the
same; a missing column, colour or picture is not. `python tests/interop/record_looks.py` records them anew.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import attrs
import pytest

Image = pytest.importorskip("PIL.Image")
ImageChops = pytest.importorskip("PIL.ImageChops")
ImageFilter = pytest.importorskip("PIL.ImageFilter")

RECORDED: Final = Path(__file__).parents[2] / "golden" / "console"
SCALE: Final = 4  # of recorded pictures
BLUR: Final = 2  # pixels of a recorded picture on each side of a point
AROUND: Final = 5  # width of the square in which a point may be elsewhere
TOLERANCE: Final = 8  # of 255, for red, green and blue of a point
MOST_PERCENT: Final = 0.4
"""Points that may be others. Measured: up to 0.1 for the same page again, or moved by one pixel, or with letters that
are 0.03 px wider; 0.2 to 4.3 for one column made invisible, in tables of 3 to 13 rows; 1.7 and more for bars without
colours."""
COLOURS: Final = 256  # of a recorded picture
TALL: Final = 2200  # window for pages whose pictures are further down


@attrs.frozen
class Look:
    """A page in one of the forms that it has: a window, a theme, paper."""

    path: str
    kind: str = "wide"
    height: int = 960

    @property
    def name(self) -> str:
        """The name of its picture."""
        words = "".join(letter if letter.isalnum() else "-" for letter in self.path.replace("{id}", "id"))
        return f"{self.kind}{words.rstrip('-') or '-home'}"


WIDTHS: Final = {"wide": 1280, "dark": 1280, "phone": 360, "phone-dark": 360, "print": 720}
PAGES: Final = (
    "/",
    "/search?q=order-7",
    "/topics",
    "/topics/Orders",
    "/topics/Orders/messages",
    "/topics/Orders/groups",
    "/topics/Orders/settings",
    "/topics/Orders/send",
    "/messages/{id}?topic=Orders",
    "/groups",
    "/groups/billing",
    "/groups/billing/queues",
    "/groups/billing/members",
    "/groups/billing/offsets",
    "/groups/billing/settings",
    "/groups/shipping/dlq",
    "/clients",
    "/delayed",
    "/brokers",
    "/brokers/broker-a",
    "/brokers/broker-a/settings",
    "/nameservers",
    "/about",
    "/nothing-here",
)
MAIN: Final = ("/", "/topics/Orders", "/messages/{id}?topic=Orders", "/groups/billing", "/brokers")
LOOKS: Final = (
    *(Look(path, height=TALL if path == "/brokers" else 960) for path in PAGES),
    *(Look(path, "dark", TALL if path == "/brokers" else 960) for path in MAIN),
    *(Look(path, "phone", TALL if path == "/groups/billing" else 960) for path in MAIN),
    Look("/groups/billing", "phone-dark", TALL),
    *(Look(path, "print", TALL if path == "/brokers" else 960) for path in MAIN[2:]),
)


def made_pages() -> dict[Look, Any]:
    """Return the page of each look, made in a thread, as Playwright has the event loop of the caller's."""
    from frozen_console import frozen_pages

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(frozen_pages, PAGES).result()
    return {look: found[look.path] for look in LOOKS}


class Photographer:
    """Takes pictures of pages in a browser, without a server."""

    def __init__(self, browser: Any, changed_files: Mapping[str, bytes] | None = None) -> None:
        """*changed_files*: by path below ``static/``, in the place of the console's."""
        from gantrymq_console.web.render import static_files

        self.too_wide = 0  # pixels of the last page that its window has no room for, beside boxes that scroll
        self._browser = browser
        self._contexts: dict[str, Any] = {}
        self._files = {**static_files(), **(changed_files or {})}

    def picture(self, look: Look, made: Any) -> Any:
        """Return the picture of a page, a quarter as wide and high."""
        page = self._context(look.kind).new_page()
        page.set_viewport_size({"width": WIDTHS[look.kind], "height": look.height})
        page.clock.set_fixed_time(made.now_ms / 1000)
        page.route("**/*", lambda route: self._serve(route, made))
        if look.kind == "print":
            page.emulate_media(media="print", reduced_motion="reduce")
        page.goto("http://console.test" + look.path)
        if page.locator("[data-charts]").count():
            page.wait_for_load_state("networkidle")  # charts are drawn by a script that the page loads later
        self.too_wide = max(0, page.evaluate("document.documentElement.scrollWidth - innerWidth"))
        found = small(page.screenshot(animations="disabled", caret="hide"))
        page.close()
        return found

    def _context(self, kind: str) -> Any:
        if kind not in self._contexts:
            self._contexts[kind] = self._browser.new_context(
                color_scheme="dark" if kind.endswith("dark") else "light",
                reduced_motion="reduce",
                locale="en-GB",
                timezone_id="UTC",
            )
        return self._contexts[kind]

    def close(self) -> None:
        """Close its windows."""
        for each in self._contexts.values():
            each.close()

    def _serve(self, route: Any, made: Any) -> None:
        path = urlsplit(route.request.url).path
        if path.startswith("/static/"):
            name = path.split("/", 3)[3]
            kind = mimetypes.guess_type(name)[0] or "text/plain"
            if name in self._files:
                route.fulfill(body=self._files[name], content_type=kind)
            else:
                route.fulfill(status=404, body="")
        elif route.request.is_navigation_request():
            policy = made.headers.get("content-security-policy", "")
            route.fulfill(
                body=made.html, headers={"content-type": "text/html; charset=utf-8", "content-security-policy": policy}
            )
        else:
            route.fulfill(status=404, body="")


def small(png: bytes) -> Any:
    """Return a screenshot in the size of recorded ones."""
    return Image.open(BytesIO(png)).convert("RGB").reduce(SCALE)


def encoded(picture: Any) -> bytes:
    """Return a picture as a file."""
    file = BytesIO()
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def recorded(look: Look) -> Any:
    """Return the recorded picture of a look; None without one."""
    path = RECORDED / f"{look.name}.png"
    return Image.open(path).convert("RGB") if path.exists() else None


def difference(one: Any, other: Any) -> float:
    """Return how many percent of the points of two pictures are others; 100 if their sizes differ."""
    if one.size != other.size:
        return 100.0
    counts = differing(one, other).histogram()
    return 100 * sum(counts[1:]) / sum(counts)


def differing(one: Any, other: Any) -> Any:
    """Return a picture in which the points that are others are white."""
    blurred = [each.filter(ImageFilter.BoxBlur(BLUR)) for each in (one, other)]
    return ImageChops.lighter(_outside(*blurred), _outside(*reversed(blurred)))


def _outside(picture: Any, other: Any) -> Any:
    """Return in white the points that are outside the range of the other picture's points around them."""
    low, high = other.filter(ImageFilter.MinFilter(AROUND)), other.filter(ImageFilter.MaxFilter(AROUND))
    beyond = ImageChops.lighter(ImageChops.subtract(low, picture), ImageChops.subtract(picture, high))
    red, green, blue = beyond.split()
    most = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return most.point(lambda value: 255 if value > TOLERANCE else 0)
