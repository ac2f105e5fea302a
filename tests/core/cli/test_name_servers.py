"""Selection of the name server plugin: loaded plugins, and errors without one."""

import json
from types import ModuleType, SimpleNamespace

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.cli.server_settings import NAME_SERVER_TO_INSTALL, name_server_kind
from gantrymq.errors import PluginError
from gantrymq.hooks import hookimpl
from gantrymq.plugins import Candidate


class Installed:
    """Fictitious installed plugins."""

    def __init__(self):
        self.candidates = []
        self.loaded = []

    def of(self, distribution):
        """The entry points of one distribution, or all."""
        return [each for each in self.candidates if distribution in ("", each.distribution)]

    def add(self, name, distribution="", problem=None):
        """A plugin that offers the name server *name*, or raises *problem*."""
        module = ModuleType(f"plugin_{name}")

        def gantry_register_name_servers(registry):
            self.loaded.append(name)
            if problem is not None:
                raise problem
            registry.add(SimpleNamespace(name=name))

        gantry_register_name_servers.__module__ = module.__name__
        module.gantry_register_name_servers = hookimpl(gantry_register_name_servers)
        self.candidates.append(Candidate(name, distribution or f"gantrymq-{name}", "1.0", given=module))


@pytest.fixture
def installed(monkeypatch):
    found = Installed()
    monkeypatch.setattr("gantrymq.plugins.load.find_candidates", lambda only: (found.of(only), []))
    return found


def test_the_known_plugin_is_loaded_alone(installed):
    installed.add("other")
    installed.add("known", NAME_SERVER_TO_INSTALL)
    assert name_server_kind().name == "known"
    assert installed.loaded == ["known"]


def test_without_the_known_plugin_another_s_name_server_runs(installed):
    installed.add("other")
    assert name_server_kind().name == "other"


def test_of_several_others_none_is_preferred(installed):
    installed.add("second")
    installed.add("first")
    with pytest.raises(PluginError, match=r"plugins offer several name servers \(first, second\); uninstall"):
        name_server_kind()


def test_the_known_plugin_is_not_replaced_when_it_is_broken(installed):
    installed.add("other")
    installed.add("known", NAME_SERVER_TO_INSTALL, ValueError("spoilt"))
    with pytest.raises(PluginError, match=r"plugin known \(gantrymq-nameserver 1.0\) failed .*: ValueError: spoilt"):
        name_server_kind()


def test_another_broken_plugin_is_told_and_left_out(installed, capsys):
    installed.add("broken", problem=ValueError("spoilt"))
    with pytest.raises(PluginError, match=r"no name server plugin is installed; .* pip install \./plugins/nameserver"):
        name_server_kind()
    assert "spoilt" in capsys.readouterr().err


def test_settings_of_a_broker_are_explained_without_a_name_server(installed):
    done = CliRunner().invoke(main, ["config", "--explain", "brokerName", "--output", "json"])
    assert json.loads(done.stdout)["server"] == "broker"
    done = CliRunner().invoke(main, ["config", "--explain", "nothingLikeIt"])
    assert done.exit_code == 1
    assert "there is no setting nothingLikeIt" in done.stderr
