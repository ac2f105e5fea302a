"""The versions that tox installs, and how a new release of a dependency is told from a fault of the tree."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import again_pinned
import constraints
import workspace
from packaging.requirements import Requirement


def test_every_requirement_is_pinned_for_every_python_to_a_version_within_its_bounds():
    pins = constraints.read(constraints.FILE.read_text())
    for python in constraints.PYTHONS:
        pinned = dict(constraints.normalized(pin.name, pin.version) for pin in pins if python in pin.pythons)
        for text in constraints.requirements(workspace.ROOT):
            need = Requirement(text)
            name, _ = constraints.normalized(need.name, "")
            if name not in constraints.NOT_PINNED and (not need.marker or need.marker.evaluate({"extra": ""})):
                assert need.specifier.contains(pinned[name], prereleases=True), f"{text} on {python}"


def test_lines_are_read_as_they_were_written():
    versions = {"3.11": {"numpy": "2.4.6", "lark": "1.3.1"}, "3.12": {"numpy": "2.5.5", "lark": "1.3.1"}}
    lines = constraints.lines(versions)
    assert lines == [
        'lark==1.3.1 ; python_version in "3.11 3.12"',
        'numpy==2.4.6 ; python_version in "3.11"',
        'numpy==2.5.5 ; python_version in "3.12"',
    ]
    assert constraints.read("\n".join([constraints.HEAD, *lines])) == [
        ("lark", "1.3.1", ("3.11", "3.12")),
        ("numpy", "2.4.6", ("3.11",)),
        ("numpy", "2.5.5", ("3.12",)),
    ]


def test_tox_takes_requirements_of_every_place(tmp_path):
    found = constraints.requirements(workspace.ROOT)
    assert {"sqlalchemy[asyncio]>=2", "ruff>=0.8", "lark>=1.3", "httpx>=0.28"} <= set(found)
    assert not [need for need in found if need.startswith("gantrymq") or "{" in need]


def test_failed_environments_are_listed_with_the_versions_that_are_not_pinned(tmp_path):
    ended = {
        "types": {
            "python": {"version_info": [3, 13, 0]},
            "installed_packages": ["NumPy==2.5.5", "lark==1.3.1", "gantrymq==0.2.0"],
            "test": [{"retcode": 1}],
        },
        "py313-all": {"setup": [{"retcode": 2}], "test": []},
        "lint": {"test": [{"retcode": 0}]},
        "slow": {},
    }
    (tmp_path / "result-quick.json").write_text(json.dumps({"testenvs": ended}))
    failed = again_pinned.failed_environments(tmp_path)
    assert list(failed) == ["types", "py313-all"]
    pins = constraints.read('lark==1.3.1 ; python_version in "3.13"\nnumpy==2.5.4 ; python_version in "3.13"\n')
    assert again_pinned.differences(failed["types"], pins) == ["numpy 2.5.5 (2.5.4)"]
    assert again_pinned.differences(failed["py313-all"], pins) == []
