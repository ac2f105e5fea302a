"""Discovery of installed plugins, with fake distributions on the path."""

import sys

import pytest

from gantrymq.errors import PluginError
from gantrymq.plugins import PluginState, find_candidates, load_plugins

WORKING = """
from gantrymq.hooks import hookimpl

@hookimpl
def gantry_register_stores(registry):
    registry.add("made_up", lambda context: None)
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install distributions: entry point name, the module's source, and the distribution's name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name, source, distribution=None):
        distribution = distribution or f"gantrymq-{name.replace('_', '-')}"
        module = f"{distribution.replace('-', '_')}_module"
        (tmp_path / f"{module}.py").write_text(source)
        info = tmp_path / f"{distribution.replace('-', '_')}-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.2\n")
        (info / "entry_points.txt").write_text(f"[gantrymq]\n{name} = {module}\n")

    return make


def info_of(name, loaded):
    return next(info for info in loaded.infos if info.name == name)


def test_an_installed_plugin_is_found_with_its_version_and_loaded(install):
    install("made_up", WORKING)
    loaded = load_plugins("made_up")
    assert list(loaded.stores) == ["made_up"]
    info = info_of("made_up", loaded)
    assert (info.distribution, info.version, info.registers) == ("gantrymq-made-up", "1.2", ("store made_up",))


def test_finding_imports_nothing(install):
    install("explosive", "raise SystemExit(3)")
    found, problems = find_candidates()
    assert "explosive" in [candidate.name for candidate in found]
    assert problems == []


def test_only_what_one_distribution_brings_is_loaded(install):
    install("made_up", WORKING)
    install("explosive", "raise SystemExit(3)")
    loaded = load_plugins(only_distribution="gantrymq-made-up")
    assert [(info.name, info.distribution, info.version) for info in loaded.infos] == [
        ("made_up", "gantrymq-made-up", "1.2")
    ]
    assert list(loaded.stores) == ["made_up"]


def test_a_distribution_that_is_not_there_brings_nothing():
    assert load_plugins(only_distribution="gantrymq-no-such-thing").infos == ()


def test_a_failing_import_is_one_sentence_with_the_remedy(install):
    install("bad_import", "import no_such_module_anywhere")
    with pytest.raises(PluginError) as caught:
        load_plugins("bad_import")
    sentence = str(caught.value)
    assert sentence.startswith("plugin bad_import (gantrymq-bad-import 1.2) does not import: ModuleNotFoundError: ")
    assert "no_such_module_anywhere" in sentence
    assert "reinstall it, remove it (pip uninstall gantrymq-bad-import)" in sentence


def test_plugins_that_are_not_named_are_not_even_imported(install):
    install("made_up", WORKING)
    install("bad_import", "import no_such_module_anywhere")
    loaded = load_plugins("made_up")
    assert info_of("bad_import", loaded).state is PluginState.LEFT_OUT
    assert loaded.left_out["gantrymq-bad-import"] == "bad_import"
    assert not loaded.problems


def test_a_name_that_is_not_installed_gets_the_nearest_one(install):
    install("made_up", WORKING)
    with pytest.raises(PluginError, match="no plugin called mad_up is installed; did you mean made_up"):
        load_plugins("mad_up")


def test_a_name_that_two_distributions_claim_loads_neither(install):
    install("made_up", WORKING)
    install("made_up", WORKING, "some-other-plugin")
    loaded = load_plugins("", strict=False)
    assert "made_up" not in loaded.stores
    assert "the plugin name made_up is claimed by gantrymq-made-up and some-other-plugin" in loaded.problems[0]


def test_a_path_of_pathlib_in_the_path_of_modules_is_searched_and_others_are_ignored(install, tmp_path, monkeypatch):
    install("made_up", WORKING)
    (tmp_path / "other").mkdir()
    kept = [each for each in sys.path if each != str(tmp_path)]
    monkeypatch.setattr(sys, "path", [None, tmp_path / "other", tmp_path, *kept])
    found, problems = find_candidates()
    assert "made_up" in [candidate.name for candidate in found]
    assert problems == []


@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt"])
def test_a_distribution_with_another_encoding_hides_no_plugin(file, install, tmp_path):
    install("made_up", WORKING)
    install("other", WORKING)
    path = tmp_path / "gantrymq_other-1.2.dist-info" / file
    path.write_bytes(path.read_bytes() + "\n#: J\u00fcrgen\n".encode("latin-1"))
    found, _ = find_candidates()
    assert {"made_up", "other"} <= {candidate.name for candidate in found}
