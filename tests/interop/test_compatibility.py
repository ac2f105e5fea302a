"""docs/compatibility.md has a row for every interop test, and none for one that is gone."""

import subprocess
import sys
from pathlib import Path

from compatibility import NOT_BUILT, PAGE, Tried, read_report, render, rows_of, title_of
from not_built import TABLE

HERE = Path(__file__).resolve().parent
AGAIN = "run them with --junit-xml=report.xml, then: python tests/interop/compatibility.py report.xml"


def test_the_page_has_the_rows_of_the_tests_that_exist() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "interop", HERE]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = [line.split("::", 1) for line in done.stdout.splitlines() if "::" in line]
    expected = {(Path(file).name, title_of(name)) for file, name in nodes if Path(file).name != NOT_BUILT}
    assert len(expected) > 20
    shown = rows_of(PAGE.read_text())
    assert sorted(shown - expected) == [], f"tests that are gone or renamed; {AGAIN}"
    assert sorted(expected - shown) == [], f"tests without a row; {AGAIN}"


def test_the_page_lists_what_is_not_built() -> None:
    page = PAGE.read_text()
    assert all(f"| {row.what} | {row.request} | code {row.code}: {row.says} |" in page for row in TABLE)


def test_versions_have_columns_and_other_parameters_are_named() -> None:
    assert title_of("test_a_thing_works[5.3.3-sync]") == "a thing works (sync)"
    assert title_of("test_a_thing_works[compressed-large-4.9.8]") == "a thing works (compressed-large)"
    assert title_of("test_a_thing_works[4.9.8]") == title_of("test_a_thing_works") == "a thing works"


def test_a_row_shows_the_worst_result_and_old_sections_stay() -> None:
    file, other = "test_several.py", "test_ali_ons.py"
    tried = [Tried(file, "a thing", ("a 1", "b 2"), "works"), Tried(file, "a thing", ("a 1",), "fails")]
    page = render(tried, render([Tried(other, "another", ("a 1",), "works")], ""))
    assert "| what was tried | a 1 | b 2 |\n|---|---|---|\n| a thing | fails | works |" in page
    assert rows_of(page) == {(file, "a thing"), (other, "another")}


def test_a_report_of_pytest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.interop.test_x" name="test_it[5.3.3]"><properties>'
        '<property name="peer" value="a 1"/></properties><failure/></testcase>'
        '<testcase classname="tests.core.test_y" name="test_it"/></testsuite></testsuites>'
    )
    assert read_report(report) == [Tried("test_x.py", "it", ("a 1",), "fails")]
