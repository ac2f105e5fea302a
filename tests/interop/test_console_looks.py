"""How the console's pages look: pictures of them in Chromium, compared with those in tests/golden/console.

The pages are those of a simulated cluster with a clock of its own (`frozen_console`), so only a change of templates,
styles, texts or Chromium changes a picture. `harness/looks.py` says what is tolerated. After an intended change, record
the pictures anew with `python tests/interop/record_looks.py`, and look at those that changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gantrymq_console")
pytest.importorskip("gantrymq_diagnosis")
pytest.importorskip("PIL")

from harness import looks
from harness.console import chromium
from harness.looks import LOOKS, Look, Photographer

from gantrymq_console.web.render import static_files

pytestmark = pytest.mark.interop

NAMES = {each.name: each for each in LOOKS}


@pytest.fixture(scope="module")
def made() -> dict[Look, Any]:
    return looks.made_pages()


@pytest.fixture(scope="module")
def browser(made: Any) -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def photographer(browser: Any) -> Iterator[Photographer]:
    found = Photographer(browser)
    yield found
    found.close()


def test_there_is_a_recorded_picture_of_each_look_and_they_are_small():
    files = {each.stem: each.stat().st_size for each in looks.RECORDED.glob("*.png")}
    assert files.keys() == NAMES.keys()
    assert len(looks.PAGES) == 24 and sum(files.values()) < 1_500_000


@pytest.mark.parametrize("name", NAMES)
def test_the_page_looks_as_recorded(photographer, made, tmp_path, name):
    seen, recorded = photographer.picture(NAMES[name], made[NAMES[name]]), looks.recorded(NAMES[name])
    found = looks.difference(recorded, seen)
    if found > looks.MOST_PERCENT:
        seen.save(tmp_path / f"{name}.png")
        if seen.size == recorded.size:
            looks.differing(recorded, seen).save(tmp_path / f"{name}-difference.png")
    assert found <= looks.MOST_PERCENT, (
        f"{found:.2f} % of the picture is another one: see {tmp_path}; if that is intended: "
        "python tests/interop/record_looks.py"
    )
    assert photographer.too_wide == 0  # with names that are long, hostile, from right to left


def changed(browser: Any, made: Any, name: str, style: str | None) -> float:
    """Return how many percent of a picture another style changes; None: no style sheet at all."""
    sheet = b"" if style is None else static_files()["console.css"] + style.encode()
    photographer = Photographer(browser, {"console.css": sheet})
    try:
        return looks.difference(looks.recorded(NAMES[name]), photographer.picture(NAMES[name], made[NAMES[name]]))
    finally:
        photographer.close()


@pytest.mark.parametrize(
    ("name", "style"),
    [
        ("wide-groups", "td:nth-child(3), th:nth-child(3) { visibility: hidden }"),
        ("wide-topics-Orders", "td:nth-child(3), th:nth-child(3) { display: none }"),
        ("wide-groups", ".number { text-align: left !important }"),
        ("wide-home", ".banner { background: none !important }"),
        ("dark-home", ".banner { background: none !important }"),
        ("phone-home", "nav ul { display: block !important }"),
        ("wide-groups-billing", ".bars { display: block !important }"),
        ("wide-groups-billing", ".m0, .m1, .m2, .m3 { fill: none !important }"),
        ("wide-brokers", ".picture { visibility: hidden }"),
        ("print-brokers", ".picture { visibility: hidden }"),
        ("wide-brokers-broker-a", "svg { visibility: hidden !important }"),
        ("wide-topics", None),
        ("phone-groups-billing", None),
    ],
)
def test_a_change_of_looks_is_seen(browser, made, name, style):
    assert changed(browser, made, name, style) > looks.MOST_PERCENT


@pytest.mark.parametrize(
    "name", ["wide-home", "wide-topics-Orders", "wide-groups-billing", "dark-home", "wide-brokers"]
)
@pytest.mark.parametrize(
    "style",
    [
        "",
        "body { position: relative; top: 1px; left: 1px }",
        "body { letter-spacing: .03px }",
        "body { -webkit-font-smoothing: antialiased; text-rendering: geometricPrecision }",
    ],
)
def test_another_rendering_of_letters_is_the_same_look(browser, made, name, style):
    assert changed(browser, made, name, style) <= looks.MOST_PERCENT


def test_pages_are_the_same_bytes_in_every_run(made):
    again = looks.made_pages()
    for look in LOOKS:
        assert again[look].html == made[look].html, look.name


def test_a_recorded_picture_is_that_of_its_page(photographer, made):
    """The colours of the file, which are few, change nothing."""
    look = NAMES["dark-groups-billing"]
    seen = photographer.picture(look, made[look])
    stored = looks.Image.open(BytesIO(looks.encoded(seen))).convert("RGB")
    assert looks.difference(seen, stored) < 0.05 and Path(looks.RECORDED, f"{look.name}.png").exists()
