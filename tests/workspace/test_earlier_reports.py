"""The environment for the rest of the tests leaves out the files that ran whole elsewhere."""

import subprocess
import sys
from pathlib import Path

from earlier_reports import ran_whole

ROOT = Path(__file__).resolve().parents[2]
WHOLE = """<testsuites><testsuite>
<testcase classname="tests.pop.test_queues.TestQueue" name="test_a[1]"/>
<testcase classname="tests.pop.test_queues" name="test_b"><properties/></testcase>
</testsuite></testsuites>"""
IN_PART = """<testsuites><testsuite>
<testcase classname="tests.admin.test_skips" name="test_a"/>
<testcase classname="tests.admin.test_skips.TestMore" name="test_b"><skipped message="needs gantrymq-pop"/></testcase>
<testcase classname="" name="tests.admin.test_needs_others"><skipped message="collection skipped"/></testcase>
<testcase classname="tests.admin.test_fails" name="test_a"><failure message="1 == 2"/></testcase>
<testcase classname="tests.admin.test_breaks" name="test_a"><error message="OSError"/></testcase>
</testsuite></testsuites>"""


def test_a_file_ran_whole_if_every_test_passed_in_one_environment_without_other_plugins(tmp_path):
    for name, text in (("py313-pop", WHOLE), ("py313-admin", IN_PART), ("py312-core", WHOLE.replace("pop", "core"))):
        (tmp_path / f"{name}.xml").write_text(text)
    for name in ("py311-all", "py312-rest", "slow"):
        (tmp_path / f"{name}.xml").write_text(WHOLE.replace("pop", "golden"))
    assert ran_whole(tmp_path) == {"tests.pop.test_queues", "tests.core.test_queues"}


def test_such_files_are_not_collected(tmp_path):
    report = WHOLE.replace("pop.test_queues", "workspace.test_pinned_versions")
    (tmp_path / "py313-pop.xml").write_text(report)
    words = ["-p", "no:cacheprovider", "--collect-only", "-q", "-n0", f"--ran-in={tmp_path}", "tests/workspace"]
    said = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT, capture_output=True, text=True).stdout
    assert "test_check_groups.py" in said
    assert "test_pinned_versions.py" not in said
