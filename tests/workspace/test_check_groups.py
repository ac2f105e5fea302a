"""The count after tox: which environments ran, from the results of both runs of tox."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import check_groups
import environments

ROOT = Path(__file__).resolve().parents[2]
RAN = [{"retcode": 0}]


def write(folder, name, **environments):
    listed = {each: {"test": commands} if commands is not None else {} for each, commands in environments.items()}
    (folder / name).write_text(json.dumps({"testenvs": listed}))


def test_an_environment_that_only_one_run_of_tox_ran_counts_as_run(tmp_path):
    write(tmp_path, "result-quick.json", lint=RAN, slow=None, spark=[])
    write(tmp_path, "result-full.json", lint=None, slow=RAN, spark=[])
    write(tmp_path, "result-timed.json", interop=RAN)
    assert check_groups.read_results(tmp_path) == ({"lint": RAN, "slow": RAN, "interop": RAN}, [])


def test_a_run_of_tox_without_results_is_told(tmp_path):
    write(tmp_path, "result-quick.json", lint=RAN)
    write(tmp_path, "result-timed.json")
    ended, missing = check_groups.read_results(tmp_path)
    assert list(ended) == ["lint"]
    assert missing == [f"{tmp_path / 'result-full.json'} does not exist: tox ended before it wrote its results"]


REPORT = """
<testsuites><testsuite errors="1" failures="1" skipped="1" tests="4" time="2.5">
<testcase classname="a.test_b" name="test_fails[1]"><failure message="1 == 2&#10; where 1">trace</failure></testcase>
<testcase classname="a.test_b" name="test_breaks"><error message="OSError: gone">trace</error></testcase>
<testcase classname="a.test_b" name="test_skips"><skipped message="no java"/></testcase>
<testcase classname="a.test_b" name="test_passes"/>
</testsuite></testsuites>"""


def test_tests_that_failed_are_named_with_the_first_line_of_their_message(tmp_path):
    report = tmp_path / "slow.xml"
    assert check_groups.failed_tests(report) == []
    report.write_text(REPORT.strip())
    assert check_groups.read_report(report) == (3, 1, 2, 2.5)
    assert check_groups.failed_tests(report) == [
        "a.test_b::test_fails[1]: 1 == 2",
        "a.test_b::test_breaks: OSError: gone",
    ]


def test_tox_prints_that_the_fast_tests_passed_only_if_every_environment_passed(capsys):
    pytest.importorskip("tox")
    sys.path.insert(0, str(ROOT))
    try:
        import toxfile
    finally:
        sys.path.remove(str(ROOT))
    for failing in (environments.quick()[2], None):
        toxfile.PASSED.clear()
        for name in environments.quick():
            toxfile.tox_after_run_commands(SimpleNamespace(name=name), int(name == failing), [])
        assert ("The fast tests passed." in capsys.readouterr().out) == (failing is None)
