"""Manually maintained lists agree with the folders and with the distributions' own pyproject files.

Two lists cannot be derived: the packages that pip installs (``requirements.txt``, the extra ``standard``) and the
README's table. The others are derived from the folders, which ``tests/workspace`` tests.
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / ".ci"))

import check_groups
import environments
import workspace
from pythons import PYTHONS

ROOT = workspace.ROOT
TREE = workspace.read()
RELEASES = workspace.releases(TREE.version)

each_plugin = pytest.mark.parametrize("plugin", TREE.plugins.values(), ids=lambda plugin: plugin.word)
each_distribution = pytest.mark.parametrize("each", TREE.every, ids=lambda each: each.word)


def changes(place, listed, wanted):
    """The changes in *place* that make it list *wanted*, a sentence for each line."""
    said = [f"add to {place}: {line}" for line in wanted if line not in listed]
    said += [f"take out of {place}: {line}" for line in listed if line not in wanted]
    if not said and listed != wanted:
        said = [f"bring {place} into this order: {' '.join(wanted)}"]
    return said


@each_plugin
def test_one_word_makes_all_names_of_a_plugin(plugin):
    project = plugin.settings["project"]
    assert project["name"] == plugin.name
    assert any((ROOT / "tests" / plugin.word).glob("test_*.py"))
    assert (plugin.source / plugin.package / "py.typed").is_file()


@each_plugin
def test_brokers_load_a_plugin_by_its_entry_point_and_no_library(plugin):
    points = None if plugin.library else {plugin.word: f"{plugin.package}.plugin"}
    assert plugin.settings["project"].get("entry-points", {}).get("gantrymq") == points
    assert (plugin.source / plugin.package / "plugin.py").is_file() != plugin.library


def licences_of_others(each):
    """The licences of the files of others in a distribution, from its VENDORED.toml."""
    listed = [tomllib.loads(path.read_text())["file"] for path in each.source.rglob("VENDORED.toml")]
    return sorted({file["license"] for files in listed for file in files})


@each_distribution
def test_the_metadata_names_the_licence_files_of_others(each):
    named = {
        path for pattern in each.settings["project"].get("license-files", ()) for path in each.folder.glob(pattern)
    }
    for path in each.source.rglob("VENDORED.toml"):
        assert {path.parent / file["license_file"] for file in tomllib.loads(path.read_text())["file"]} <= named


@each_distribution
def test_every_distribution_has_complete_metadata(each):
    project = each.settings["project"]
    assert project["name"] == each.name
    assert project["version"] == TREE.version
    assert project["license"] == " AND ".join(["Apache-2.0", *licences_of_others(each)])
    assert 20 < len(project["description"]) <= 120
    assert "rocketmq" in project["keywords"]
    assert {f"Programming Language :: Python :: {version}" for version in PYTHONS} < set(project["classifiers"])
    assert (each.folder / "README.md").read_text().startswith(f"# {each.name}\n")
    assert (each.folder / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()


@each_plugin
def test_a_plugin_depends_on_core_and_on_what_it_says_that_it_may_import(plugin):
    of_package = {each.package: each.name for each in TREE.every}
    imported = {module.partition(".")[0] for module in plugin.may_import}
    assert imported <= set(of_package), f"may-import of {plugin.word} names a package that is not in the tree"
    wanted = sorted(name + RELEASES for name in {"gantrymq", *(of_package[package] for package in imported)})
    listed = [need for need in plugin.settings["project"]["dependencies"] if workspace.is_ours(need)]
    place = f"dependencies in plugins/{plugin.word}/pyproject.toml"
    assert changes(place, sorted(listed), wanted) == []


def test_the_extra_standard_brings_what_says_that_it_is_standard():
    listed = TREE.core.settings["project"]["optional-dependencies"]["standard"]
    wanted = sorted(each.name + RELEASES for each in TREE.every if each.standard)
    assert changes('"standard" in core/pyproject.toml', listed, [*wanted, "gantrymq[tls]"]) == []


def test_the_default_install_is_core_and_what_is_standard():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    listed = [line for line in lines if line and not line.startswith("#")]
    standard = [each for each in (*TREE.libs.values(), *TREE.plugins.values()) if each.standard]
    wanted = [f"./{each.folder.relative_to(ROOT).as_posix()}" for each in standard]
    tls = TREE.core.settings["project"]["optional-dependencies"]["tls"]  # pip 23 does not take ./core[tls] for gantrymq
    assert changes("requirements.txt", listed, ["./core", *wanted, *tls]) == []


def test_the_readme_lists_every_distribution_and_calls_optional_what_is_not_standard():
    rows = re.findall(r"^\| `(gantrymq[a-z0-9-]*)` \| (.*) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    others = sorted((each for each in TREE.every if each is not TREE.core), key=lambda each: each.name)
    texts = dict(rows)
    for each in others:
        text = texts.setdefault(each.name, each.settings["project"]["description"])
        texts[each.name] = text.removesuffix("; optional") + ("" if each.standard else "; optional")
    listed = [f"| `{name}` | {text} |" for name, text in rows]
    wanted = [f"| `{each.name}` | {texts[each.name]} |" for each in (TREE.core, *others)]
    assert changes("README.md", listed, wanted) == []


def test_the_check_after_tox_expects_the_quick_and_the_full_environments(monkeypatch):
    pytest.importorskip("tox")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("TOX_")}
    listed = set()
    for option in (["-d"], ["-m", "full"]):
        ask = [sys.executable, "-m", "tox", "list", *option, "--no-desc"]
        said = subprocess.run(ask, cwd=ROOT, env=environ, capture_output=True, text=True, check=True).stdout
        listed.update(said.split())
    for present in ("java_is_here", "node_is_here", "libraries"):
        monkeypatch.setattr(check_groups, present, lambda *_: True)
    monkeypatch.setattr(check_groups, "interpreters", lambda: PYTHONS)
    monkeypatch.setattr(check_groups, "no_spark", lambda: "")
    assert sorted(check_groups.expected_environments()) == sorted(listed)


def test_news_fragments_have_a_known_kind():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
    kinds = {kind["directory"] for kind in settings["type"]}
    for path in (ROOT / "changelog.d").glob("*.md"):
        if path.name != "README.md":
            assert path.name.split(".")[-2] in kinds, path.name
            assert path.read_text().startswith("gantrymq"), path.name


def test_the_index_and_the_site_of_the_documentation_name_every_page():
    docs = ROOT / "docs"
    pages = {path.relative_to(docs).as_posix() for path in docs.glob("**/*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\(([\w/-]+\.md)\)", (docs / "README.md").read_text()))
    assert linked == {
        page
        for page in pages
        if not page.startswith(("plugins/hooks/gantry_", "plugins/broker/", "plugins/api/"))
        or page.endswith("README.md")
    }
    listed = re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted({*pages, "README.md"})


def test_links_between_pages_lead_somewhere():
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("plugins/*/README.md"),
        *ROOT.glob("libs/*/README.md"),
    ]
    broken = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(
            r"\]\((?!https?:|#|mailto:|\.\./\.\./actions/)([^)#\s]+)", page.read_text(encoding="utf-8")
        )
        if not (page.parent / link).exists()
    ]
    assert broken == []


def test_the_workflows_run_the_commands_of_the_readme():
    workflows = {path.stem: path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml")}
    assert "      - run: pip install tox && tox\n" in workflows["quick"]
    assert "pip install tox && tox\n" in (ROOT / "README.md").read_text()
    assert f"python: {json.dumps(list(PYTHONS))}" in workflows["quick"]
    assert "      - run: .ci/run --newest\n" in workflows["full"]
    named = {word for text in workflows.values() for word in re.findall(r"tox -e (\w+)", text)}
    assert named == set(environments.CHECKS) - {"wheels", "lint", "types"}
