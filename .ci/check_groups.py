"""Count the tests after tox, and fail if a group that can run on this machine ran nothing.

    python .ci/check_groups.py .tox

Reads tox's output in the folder: ``result-quick.json`` and others (``tox --result-json``) list the environments and the
exit codes of their commands; ``reports/<environment>.xml`` is pytest's count. Environments of a Python that is not
installed are not expected; neither are ``interop`` without Java, Node, Go and Chromium, ``spark`` without Java 17, and
``sanitize`` without its libraries. In environments with everything installed, a test file with every test skipped
counts as a group that ran nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import environments
import workspace
from javas import no_spark
from pythons import PYTHONS, interpreters
from sanitize import libraries

LONGEST_MESSAGE = 200  # characters of a failed test's message
RESULTS = ("result-quick.json", "result-full.json", "result-timed.json")


class Count(NamedTuple):
    """Outcomes of one environment."""

    ran: int
    skipped: int
    failed: int
    seconds: float = 0.0


def main() -> int:
    work_dir = Path(sys.argv[1])
    ended, unwritten = read_results(work_dir)
    complete = {"sanitize", "slow", "spark"} | ({"interop"} if every_client_is_here() else set())
    problems, failed, total, counted = unwritten, list[str](), Count(0, 0, 0), 0
    for name in expected_environments():
        commands = ended.get(name)
        if not commands:
            problems.append(f"{name} ran no command")
            continue
        if any(command["retcode"] for command in commands):
            problems.append(f"{name} failed")
        counted += 1
        if name in environments.CHECKS:
            continue
        report = work_dir / "reports" / f"{name}.xml"
        count = read_report(report)
        if count.ran == 0:
            problems.append(f"{name} ran no test ({count.skipped} skipped)")
        elif name.endswith(("-all", "-rest")) or name in complete:
            problems += [f"{name} skipped every test of {module}" for module in skipped_modules(report)]
        total = Count(*(before + more for before, more in zip(total, count, strict=True)))
        print(f"  {name:24} {count.ran:6} ran {count.skipped:6} skipped {count.failed:6} failed {count.seconds:7.0f} s")
        failed += [f"{name}: {test}" for test in failed_tests(report)]
    for line in failed:
        print(line, file=sys.stderr)
    for problem in problems:
        print(f"NOT GOOD: {problem}", file=sys.stderr)
    print(
        f"{'FAILED' if problems else 'PASSED'}: {total.ran} tests ran in {counted} environments, "
        f"{total.skipped} skipped, {total.failed} failed"
    )
    return 1 if problems else 0


def read_results(work_dir: Path) -> tuple[dict[str, list[dict[str, Any]]], list[str]]:
    """Return the commands that ran, by environment, and a sentence for each missing result.

    Each result lists all environments, without commands those that this run of tox left out.
    """
    ended, unwritten = {}, []
    for name in RESULTS:
        if (path := work_dir / name).exists():
            listed = json.loads(path.read_text()).get("testenvs", {})
            ended |= {each: ran["test"] for each, ran in listed.items() if ran.get("test")}
        else:
            unwritten.append(f"{path} does not exist: tox ended before it wrote its results")
    return ended, unwritten


def expected_environments() -> list[str]:
    """Return the environments of ``tox`` and ``tox run -m full`` that this machine has the programs for."""
    here = interpreters()
    absent = [version for version in PYTHONS if version not in here]
    missing = tuple(f"py{version.replace('.', '')}-" for version in absent)
    needs = {"sanitize": bool(libraries()), "spark": not no_spark(), "interop": java_is_here() or node_is_here()}
    names = dict.fromkeys([*environments.quick(), *environments.full(workspace.read())])
    return [name for name in names if needs.get(name, True) and not name.startswith(missing)]


def java_is_here() -> bool:
    """Whether official Java clients and servers can be built and run."""
    return shutil.which("java") is not None and shutil.which("mvn") is not None


def node_is_here() -> bool:
    """Whether the official Node client can be installed and run."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


def every_client_is_here() -> bool:
    """Whether the official clients of all languages can be built and run, and a browser is there."""
    go = shutil.which("go") or os.access("/usr/local/go/bin/go", os.X_OK)
    return java_is_here() and node_is_here() and bool(go) and shutil.which("chromium") is not None


def read_report(path: Path) -> Count:
    """Sum up pytest's report; all zero if it does not exist."""
    if not path.exists():
        return Count(0, 0, 0)
    suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    tests, skipped, bad = (
        sum(int(suite.get(name, 0)) for suite in suites for name in names)
        for names in (("tests",), ("skipped",), ("failures", "errors"))
    )
    seconds = sum(float(suite.get("time", 0)) for suite in suites)
    return Count(tests - skipped, skipped, bad, seconds)


def failed_tests(path: Path) -> list[str]:
    """Return the name of each test that failed, with the first line of its message."""
    if not path.exists():
        return []
    found = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        for outcome in (*case.iter("failure"), *case.iter("error")):
            message = outcome.get("message", "").partition("\n")[0][:LONGEST_MESSAGE]
            found.append(f"{case.get('classname')}::{case.get('name')}: {message}")
    return found


def skipped_modules(path: Path) -> list[str]:
    """Test files of a report in which no test ran."""
    ran: dict[str, bool] = {}
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        words = case.get("classname", "").split(".")
        module = ".".join(words[: 1 + max((i for i, word in enumerate(words) if word.startswith("test_")), default=0)])
        ran[module] = ran.get(module, False) or case.find("skipped") is None
    return sorted(module for module, any_ran in ran.items() if not any_ran)


if __name__ == "__main__":
    sys.exit(main())
