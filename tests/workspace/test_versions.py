"""One command sets the version everywhere, `.ci/set_version.py`; every file that states it agrees."""

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import set_version
import workspace

ROOT = workspace.ROOT
STATED = ("*.toml", "*.in", "*.md", "*.txt", "*.yaml", "*.cfg", "Dockerfile")
FOLDERS = ("core", "docs", "examples", "libs", "packaging", "plugins")
REQUIRED = re.compile(r"\bgantrymq[a-z0-9-]*(?:\[[a-z0-9,-]+\])?[>=~]=\s*\d")


@pytest.mark.parametrize(
    ("version", "releases"),
    [
        ("0.3.0", ">=0.3.0,<0.4"),
        ("0.3.2", ">=0.3.2,<0.4"),
        ("0.4.0.dev0", ">=0.4.0.dev0,<0.5"),
        ("0.9.0rc1", ">=0.9.0rc1,<0.10"),
        ("1.0.0", ">=1.0.0,<1.1"),
    ],
)
def test_distributions_work_with_the_same_or_later_versions_of_their_series(version, releases):
    assert workspace.releases(version) == releases


def test_every_file_states_the_version_of_the_distributions():
    version = workspace.read().version
    assert list(set_version.with_version(ROOT, version)) == [], f"run: python .ci/set_version.py {version}"


def test_a_new_version_reaches_every_file_that_states_one():
    texts = set_version.with_version(ROOT, "9.8.0.dev0")
    chart = texts[ROOT / "packaging/helm/gantrymq/Chart.yaml"]
    assert "\nversion: 9.8.0-dev0\nappVersion: 9.8.0.dev0\n" in chart
    assert '"gantrymq-admin>=9.8.0.dev0,<9.9",' in texts[ROOT / "core/pyproject.toml"]
    assert '__version__ = "9.8.0.dev0"' in texts[ROOT / "core/src/gantrymq/__init__.py"]
    stating = {
        path
        for folder in FOLDERS
        for pattern in STATED
        for path in (ROOT / folder).rglob(pattern)
        if REQUIRED.search(path.read_text(encoding="utf-8"))
    }
    assert stating <= set(texts)
    old = re.escape(workspace.read().version)
    for path, text in texts.items():
        assert not re.search(rf"\b{old}\b|gantrymq[a-z0-9-]*>=(?!9\.8\.0\.dev0,<9\.9)", text), path


def test_a_file_that_states_no_version_is_an_error(tmp_path):
    (tmp_path / "core/src/gantrymq").mkdir(parents=True)
    (tmp_path / "core/src/gantrymq/__init__.py").write_text("")
    with pytest.raises(ValueError, match=r"__init__\.py: expected .*__version__"):
        set_version.with_version(tmp_path, "0.3.0")


@pytest.mark.parametrize("version", ["0.3", "v0.3.0", "0.4.0-dev0", ""])
def test_another_form_of_version_is_refused(version, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["set_version.py", version])
    assert set_version.main() == 2
    assert "python .ci/set_version.py 0.3.0" in capsys.readouterr().err
