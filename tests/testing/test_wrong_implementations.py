"""Deliberately wrong implementations, stored in ``wrong/``: a contract fails for each, in the case that names the
fault.

pytest runs them in a separate process, as a plugin author would run them.
"""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest

WRONG = Path(__file__).with_name("wrong")
NEEDS_MEMORY = ("store_shows_early", "store_repeats_an_offset", "transaction_commits_twice")
CAUGHT_BY = {
    "store_shows_early": {"test_nothing_is_visible_before_it_is_published"},
    "store_repeats_an_offset": {"test_queue_offsets_are_consecutive_in_every_queue"},
    "filter_rejects_too_much": {"test_decides_as_the_example_says"},
    "allocation_gives_a_queue_twice": {"test_every_queue_has_one_reader"},
    "dispatcher_runs_ahead": {
        "test_the_position_is_never_ahead_of_what_was_handled",
        "test_a_kill_without_a_flush_loses_nothing",
    },
    "transaction_commits_twice": {
        "test_the_same_decision_again_changes_nothing",
        "test_another_group_cannot_decide",
    },
}


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory):
    """File name to names of its failed and of its passed tests."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "pytest.ini").write_text("[pytest]\n")
    files = [WRONG / f"{name}.py" for name in CAUGHT_BY if name not in NEEDS_MEMORY or has_memory()]
    options = ["-p", "no:cacheprovider", "--import-mode=importlib", "-c", folder / "pytest.ini", "--rootdir", WRONG]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", *options, f"--junit-xml={folder / 'report.xml'}", *files],
        capture_output=True,
        text=True,
        cwd=folder,
    )
    assert done.returncode == 1, done.stdout + done.stderr  # tests ran, and some failed
    found = {file.stem: (set(), set()) for file in files}
    for case in ElementTree.parse(folder / "report.xml").getroot().iter("testcase"):
        assert case.find("error") is None, case.get("name")
        failed, passed = found[case.get("classname").split(".")[-2]]
        (passed if case.find("failure") is None else failed).add(case.get("name").partition("[")[0])
    return found


def has_memory():
    return find_spec("gantrymq_storage_memory") is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", CAUGHT_BY)
def test_the_contract_catches(name, outcomes):
    if name in NEEDS_MEMORY and not has_memory():
        pytest.skip("needs gantrymq-storage-memory")
    failed, passed = outcomes[name]
    assert failed >= CAUGHT_BY[name]
    assert passed - failed, "nothing passed: not only the named fault is wrong"


def test_every_wrong_implementation_is_listed():
    assert {path.stem for path in WRONG.glob("*.py")} == set(CAUGHT_BY)
