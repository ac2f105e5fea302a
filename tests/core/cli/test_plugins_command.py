"""``gantrymq plugins``."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.plugins import PluginInfo, Plugins, PluginState

GOOD = PluginInfo("good", "gantrymq-good", "1.0", PluginState.LOADED, ("store good", "setting a", "setting b"))
BROKEN = PluginInfo("bad", "gantrymq-bad", "2.0", PluginState.BROKEN, (), "plugin bad does not import: because")


@pytest.fixture
def installed(monkeypatch):
    def pretend(*infos):
        problems = tuple(info.problem for info in infos if info.problem)
        monkeypatch.setattr("gantrymq.cli.plugins.load_plugins", lambda **options: Plugins(infos, problems))

    return pretend


def invoke(*words):
    return CliRunner().invoke(main, ["plugins", *words])


def test_lists_what_each_plugin_registers(installed):
    installed(GOOD)
    result = invoke()
    assert result.exit_code == 0
    assert "gantrymq-good" in result.stdout
    assert "store good, 2 settings" in result.stdout


def test_a_broken_plugin_is_listed_explained_and_exit_code_1(installed):
    installed(GOOD, BROKEN)
    result = invoke()
    assert result.exit_code == 1
    assert "broken" in result.stdout
    assert "gantrymq: plugin bad does not import: because" in result.stderr


def test_json_has_every_registration(installed):
    installed(GOOD, BROKEN)
    result = invoke("--output", "json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert [plugin["state"] for plugin in found["plugins"]] == ["loaded", "broken"]
    assert found["plugins"][0]["registers"] == ["store good", "setting a", "setting b"]
    assert found["problems"] == ["plugin bad does not import: because"]


def test_no_plugin_is_no_error(installed):
    installed()
    result = invoke()
    assert (result.exit_code, result.stdout) == (0, "No plugin is installed.\n")


def test_rows_stay_short_in_a_pipe(installed):
    handlers = tuple(f"handler for request code {code}" for code in range(300, 330))
    names = tuple(f"allocation MACHINE_ROOM_NEARBY-{number}" for number in range(20))
    installed(PluginInfo("large", "gantrymq-large", "1.0", PluginState.LOADED, (*names, *handlers, "setting a")))
    result = invoke()
    assert max(len(line) for line in result.stdout.splitlines()) < 140
    words = " ".join(result.stdout.split())
    assert words.endswith("allocation MACHINE_ROOM_NEARBY-19, 30 requests, 1 setting")
