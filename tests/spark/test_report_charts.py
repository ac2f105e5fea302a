"""Charts and pages show names as they are, whatever is in them."""

from gantrymq_spark.report.charts import MAX_BARS, bars, lines
from gantrymq_spark.report.page import Page, Section, Table, write_page

NAMES = ["a$x_1$/0", r"$\frac$", "<b>&", "%DLQ%g", "_under", "主题", "x" * 200]


def test_bars_show_names_as_they_are():
    chart = bars(NAMES, range(len(NAMES)), "messages")
    assert chart.startswith("<svg")
    for text in ("a$x_1$/0", r"$\frac$", "&lt;b&gt;&amp;", "%DLQ%g", "_under", "主题", "x" * 47 + "…"):
        assert f">{text}<" in chart
    assert ">n24<" in bars([f"n{n}" for n in range(99)], range(99), "m")
    assert f">n{MAX_BARS}<" not in bars([f"n{n}" for n in range(99)], range(99), "m")
    assert bars([], [], "messages") == ""


def test_lines_show_names_as_they_are():
    chart = lines({name: [(0, 1), (3_600_000_000, 2)] for name in NAMES}, "messages")
    for text in ("a$x_1$/0", r"$\frac$", "&lt;b&gt;&amp;", "_under", "主题"):
        assert f">{text}<" in chart
    assert lines({"a": []}, "messages") == ""


def test_a_page_escapes_and_counts_what_it_leaves_out(tmp_path):
    table = Table(("<i>", "n"), [("<u>", 1234), (None, 0.5)], all_rows=70_000, rest="the others are elsewhere")
    page = Page("<b>", "it & that", False, [("<s>", "<q>")], [Section("<h>", ["<p>x"], "<svg/>", table)])
    write_page(tmp_path / "page.html", page)
    text = (tmp_path / "page.html").read_text()
    assert not any(tag in text for tag in ("<b>", "<i>", "<u>", "<s>", "<q>", "<h>", "<p>x"))
    assert "<svg/>" in text
    assert "1,234" in text and "0.50" in text
    assert "These are 2 of 70,000; the others are elsewhere." in text
