"""docs/start/compatibility.md has a row for every interop test, no row without a test, and no outdated result."""

import subprocess
import sys
from pathlib import Path

import deviations
import pytest
from compatibility import LEFT_OUT, PAGE, Tried, read_report, render, rows_of, title_of
from mqadmin_differences import DIFFERENT, result_of
from mqadmin_shapes import golden
from not_built import TABLE

from gantrymq.broker.wire.router import NOT_BUILT
from gantrymq.remoting.codes import RequestCode

HERE = Path(__file__).resolve().parent
AGAIN = "run them with --junit-xml=report.xml, then: python tests/interop/compatibility.py report.xml"


@pytest.mark.slow
def test_the_page_has_the_rows_of_the_tests_that_exist() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "-m", "interop", HERE]
    done = subprocess.run(command, cwd=HERE.parents[1], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    nodes = [line.split("::", 1) for line in done.stdout.splitlines() if "::" in line]
    expected = {(Path(file).name, title_of(name)) for file, name in nodes if Path(file).name not in LEFT_OUT}
    assert len(expected) > 20
    shown = rows_of(PAGE.read_text()).keys()
    assert sorted(shown - expected) == [], f"tests that are gone or renamed; {AGAIN}"
    assert sorted(expected - shown) == [], f"tests without a row; {AGAIN}"


def test_the_page_says_of_mqadmin_what_its_table_of_differences_says() -> None:
    file, test = "test_mqadmin.py", "test_a_command_prints_what_it_prints_for_java"
    shown = rows_of(PAGE.read_text())
    for name in (command["name"] for command in golden()["commands"]):
        assert shown[file, title_of(f"{test}[{name}]")] == {result_of(name)}, f"{name}; {AGAIN}"


def test_no_row_fails_or_was_skipped() -> None:
    results = {result.partition(":")[0] for found in rows_of(PAGE.read_text()).values() for result in found}
    assert {"works", "differs"} <= results <= {"works", "differs", "refused"}


def test_every_named_difference_is_of_a_command_that_is_run() -> None:
    assert {named.command for named in DIFFERENT} <= {command["name"] for command in golden()["commands"]}


def test_a_command_works_or_names_its_first_difference() -> None:
    assert result_of("00-updateTopic") == "works"
    assert result_of("32-clusterList") == "differs: the version is ours"
    assert result_of("60-deleteExpiredCommitLog") == "works"


def test_the_page_lists_what_is_not_built() -> None:
    page = PAGE.read_text()
    assert all(f"| {row.what} | {row.request} | code {row.code}: {row.says} |" in page for row in TABLE)
    users = set(range(RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_LIST_ACL + 1))  # one row for all of them
    assert set(NOT_BUILT) - users < {row.request for row in TABLE}


def test_the_page_lists_what_differs_on_purpose_and_each_row_names_a_test() -> None:
    page = PAGE.read_text()
    for row in deviations.TABLE:
        assert f"| {row.what} | {row.rocketmq} | {row.gantrymq} | `{row.test}` |" in page, AGAIN
        path, _, function = row.test.partition("::")
        assert f"def {function}(" in (HERE.parents[1] / path).read_text()


def test_versions_have_columns_and_other_parameters_are_named() -> None:
    assert title_of("test_a_thing_works[5.3.3-sync]") == "a thing works (sync)"
    assert title_of("test_a_thing_works[compressed-large-4.9.8]") == "a thing works (compressed-large)"
    assert title_of("test_a_thing_works[4.9.8]") == title_of("test_a_thing_works") == "a thing works"
    assert title_of("test_a_thing_works[0.4.0.dev0-pop]") == "a thing works (pop)"
    assert title_of("test_a_thing_works[ours-java-5.0.8-normal]") == "a thing works (ours-normal)"


def test_a_row_shows_the_worst_result_and_old_sections_stay() -> None:
    file, other = "test_several.py", "test_ali_ons.py"
    tried = [Tried(file, "a thing", ("a 1", "b 2"), "works"), Tried(file, "a thing", ("a 1",), "fails")]
    page = render(tried, render([Tried(other, "another", ("a 1",), "works")], ""))
    assert "| Test | a 1 | b 2 |\n|---|---|---|\n| a thing | fails | works |" in page
    assert rows_of(page) == {(file, "a thing"): {"fails", "works"}, (other, "another"): {"works"}}


def test_the_section_of_a_file_stays_when_all_its_tests_are_skipped() -> None:
    file = "test_several.py"
    page = render([Tried(file, "a thing", ("a 1",), "works")], "")
    assert render([Tried(file, "a thing", ("GantryMQ alone",), "skipped")], page) == page
    tried = [Tried(file, "a thing", ("a 1",), "skipped"), Tried(file, "another", ("a 1",), "works")]
    assert rows_of(render(tried, page)) == {(file, "a thing"): {"skipped"}, (file, "another"): {"works"}}


def test_a_difference_is_worse_than_none_and_better_than_a_refusal() -> None:
    tried = [Tried("test_several.py", "a thing", ("a",), each) for each in ("works", "differs: x", "refused: y")]
    for count, worst in ((1, "works"), (2, "differs: x"), (3, "refused: y")):
        assert f"| a thing | {worst} |" in render(tried[:count], "")


def test_tests_of_our_own_drivers_are_no_rows(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    cases = "".join(f'<testcase classname="tests.interop.{Path(file).stem}" name="test_it"/>' for file in LEFT_OUT)
    report.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert read_report(report) == []
    assert all((HERE / file).exists() for file in LEFT_OUT)


def test_a_report_of_pytest_is_read(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="tests.interop.test_x" name="test_it[5.3.3]"><properties>'
        '<property name="peer" value="a 1"/></properties><failure/></testcase>'
        '<testcase classname="tests.core.test_y" name="test_it"/></testsuite></testsuites>'
    )
    assert read_report(report) == [Tried("test_x.py", "it", ("a 1",), "fails")]


def test_a_test_may_say_what_its_passing_means(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    said = '<properties><property name="result" value="differs: so"/></properties>'
    report.write_text(
        f'<testsuites><testsuite><testcase classname="tests.interop.test_x" name="test_a">{said}</testcase>'
        f'<testcase classname="tests.interop.test_x" name="test_b">{said}<failure/></testcase></testsuite></testsuites>'
    )
    assert [each.result for each in read_report(report)] == ["differs: so", "fails"]
