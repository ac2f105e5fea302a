"""The ready line, and warnings about misleading broker addresses."""

import asyncio
import os
from importlib import import_module

import attrs
import pytest

from gantrymq.broker.settings import SCHEMA
from gantrymq.cli.server_settings import (
    ServerArguments,
    broker_settings,
    exposure_notes,
    name_server_settings,
    store_root,
)
from gantrymq.cli.serving import Servers, advertises_loopback
from gantrymq.config import Setting, Settings
from gantrymq.errors import ConfigError, PluginError
from gantrymq.plugins import Plugins
from gantrymq.world.real import real_world


@pytest.fixture
def world(monkeypatch):
    for key in ("NAMESRV_ADDR", "listenPort", "brokerName"):
        monkeypatch.delenv(key, raising=False)
    return attrs.evolve(real_world(), environ=dict(os.environ))


def broker(world, **asked):
    return broker_settings(world, ServerArguments("test", **asked), strict=False).settings


@pytest.mark.parametrize(
    ("advertised", "bound", "misleading"),
    [
        ("127.0.0.1", "0.0.0.0", True),
        ("::1", "::", True),
        ("localhost", "192.0.2.1", True),
        ("127.0.0.1", "127.0.0.1", False),
        ("127.0.0.1", "localhost", False),
        ("192.0.2.1", "0.0.0.0", False),
        ("broker.example", "0.0.0.0", False),
    ],
)
def test_a_loopback_address_misleads_beside_a_public_bind(advertised, bound, misleading):
    assert advertises_loopback(advertised, bound) is misleading


def test_a_ready_line_leaves_out_what_does_not_run(world):
    assert set(Servers(world, name_server_address="127.0.0.1:9876").ready_line()) == {"ready", "namesrv", "start_ms"}


def test_name_servers_come_from_the_environment_of_rocketmq(world):
    world.environ["NAMESRV_ADDR"] = "192.0.2.1:9876"
    assert broker(world).text("namesrvAddr") == "192.0.2.1:9876"
    assert broker(world, pairs=("namesrvAddr=192.0.2.2:9876",)).text("namesrvAddr") == "192.0.2.2:9876"


def test_the_store_is_in_the_home_folder_and_a_relative_one_is_made_absolute(world, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert store_root(broker(world)) == tmp_path / "home" / "store"
    assert store_root(broker(world, pairs=("storePathRootDir=~/kept",))) == tmp_path / "home" / "kept"
    monkeypatch.chdir(tmp_path)
    assert store_root(broker(world, pairs=("storePathRootDir=here",))) == tmp_path / "here"


def test_an_option_of_its_own_weighs_as_much_as_a_pair(world, tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=1\nbrokerName=of-file\n")
    settings = broker(world, file=file, options={"listenPort": ("--port", 2), "brokerName": ("--name", None)})
    assert (settings.number("listenPort"), settings.source("listenPort")) == (2, "--port")
    assert settings.text("brokerName") == "of-file"


def test_the_file_of_a_name_server_is_shown(world, tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=9999\n")
    settings, _, notes, _ = name_server_settings(world, ServerArguments("test", file))
    assert settings.text("configStorePath") == str(file)
    assert settings.number("listenPort") == 9999
    assert notes == ()


def test_what_is_not_built_is_refused(world):
    with pytest.raises(ConfigError, match="enableDLegerCommitLog"):
        broker(world, pairs=("enableDLegerCommitLog=true",))


class NeverBuilt:
    """A kind of name server that records the arguments of its builds."""

    def __init__(self):
        self.asked = []

    def build(self, *given, **more):
        self.asked.append(given)


@pytest.mark.parametrize("line", ["import gantrymq_nowhere", "import_module('gantrymq_nowhere')"])
def test_a_store_that_cannot_be_imported_is_told_in_a_sentence(line, world, tmp_path):
    def make(context):
        exec(line, {"__name__": "gantrymq_made_up.plugin", "import_module": import_module})

    given = broker_settings(world, ServerArguments("test", pairs=(f"storePathRootDir={tmp_path}",)), strict=False)
    given.settings.set("store", "made_up", "the test")
    plugins = Plugins(config=given.plugins.config, stores={"made_up": make})
    with pytest.raises(PluginError) as caught:
        asyncio.run(Servers(world, None, given._replace(plugins=plugins)).start())
    assert str(caught.value) == (
        "gantrymq_made_up.plugin cannot import a module that it needs: ModuleNotFoundError: No module named "
        "'gantrymq_nowhere'; reinstall gantrymq_made_up, or select something else in the settings"
    )


def test_a_missing_store_plugin_is_found_before_any_port_is_open(world, tmp_path):
    kind = NeverBuilt()
    asked = ServerArguments("test", pairs=("store=nowhere", f"storePathRootDir={tmp_path / 'store'}"))
    name_server = name_server_settings(world, ServerArguments("test"))._replace(kind=kind)
    servers = Servers(world, name_server, broker_settings(world, asked, strict=False))
    with pytest.raises(PluginError, match="store"):
        asyncio.run(servers.start())
    assert kind.asked == []
    assert not (tmp_path / "store").exists()


def exposed(world, *pairs):
    given = [(name, broker(world, pairs=pairs)) for name in ("name server", "broker")]
    return exposure_notes(given)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
def test_a_server_of_this_machine_alone_is_not_exposed(world, host):
    assert exposed(world, f"bindAddress={host}") == ()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "192.168.1.2", "192.0.2.1", "broker.example"])
def test_a_server_that_others_reach_is_exposed_and_told_once(world, host):
    (note,) = exposed(world, f"bindAddress={host}")
    assert f"the name server and the broker listen on {host}" in note


def test_required_certificates_of_clients_are_access_control(world):
    wanted = ("tls.server.need.client.auth=require", "tls.server.authClient=true")
    assert exposed(world, "tls.server.mode=enforcing", "bindAddress=0.0.0.0", *wanted) == ()
    assert len(exposed(world, "tls.server.mode=permissive", "bindAddress=0.0.0.0", *wanted)) == 1
    assert len(exposed(world, "tls.server.mode=enforcing", "bindAddress=0.0.0.0")) == 1


def test_an_authorizer_is_access_control(world):
    assert exposed(world, "bindAddress=0.0.0.0", "authorizer=tokens") == ()


def test_a_listener_with_optional_accounts_is_exposed(world):
    given = ("authorizer=tokens", "bindAddress=127.0.0.1", "listeners=a=remoting://0.0.0.0:0")
    assert exposed(world, *given) == ()
    assert len(exposed(world, *given, "listenerAccess=a=optional")) == 1
    assert exposed(world, *given, "listenerAccess=default=optional,a=required") == ()


def test_a_listener_with_the_protocol_of_a_plugin_is_exposed_as_others_are(world):
    given = ("bindAddress=127.0.0.1", "listeners=sdk=grpc://0.0.0.0:8081")
    (note,) = exposed(world, *given)
    assert "listen on 0.0.0.0" in note
    assert exposed(world, *given, "authorizer=tokens") == ()
    assert len(exposed(world, *given, "authorizer=tokens", "listenerAccess=sdk=optional")) == 1
    wanted = ("tls.server.need.client.auth=require", "tls.server.authClient=true")
    assert exposed(world, "bindAddress=127.0.0.1", "listeners=sdk=grpc+tls://0.0.0.0:8081", *wanted) == ()


def test_a_name_server_beside_a_broker_with_an_authorizer_is_told_of_for_what_it_gives(world):
    given = [("name server", broker(world, pairs=("bindAddress=0.0.0.0",)))]
    given.append(("broker", broker(world, pairs=("bindAddress=0.0.0.0", "authorizer=tokens"))))
    (note,) = exposure_notes(given)
    assert note.startswith("the name server listens on 0.0.0.0")
    assert "can read all routes, and register or remove brokers" in note
    assert "everything" not in note


def test_a_name_server_shares_the_settings_of_tls_of_a_broker_but_not_those_of_plugins(world):
    schema = [*SCHEMA, Setting.text("acmeTokenFile", "", "a plugin's", local=True)]
    given = {"acmeTokenFile": "/etc/tokens", "tls.server.mode": "disabled"}
    of_name_server = name_server_settings(world, ServerArguments("test"), beside=Settings(schema, given))
    assert not [note for note in of_name_server.notes if "acmeTokenFile" in note]
    assert of_name_server.settings.text("tls.server.mode") == "disabled"


def test_a_further_listener_that_others_reach_is_exposed(world):
    inside = ("bindAddress=127.0.0.1", "listeners=a=remoting://127.0.0.2:0,b=remoting+tls://0.0.0.0:0")
    (note,) = exposed(world, *inside)
    assert note.startswith("the name server and the broker listen on 0.0.0.0")
    wanted = ("tls.server.need.client.auth=require", "tls.server.authClient=true")
    assert exposed(world, *inside, *wanted) == ()
    assert len(exposed(world, "bindAddress=127.0.0.1", "listeners=a=remoting://0.0.0.0:0", *wanted)) == 1
    assert len(exposed(world, inside[1] + ",c=remoting://0.0.0.0:0", *wanted)) == 1


def test_a_server_with_a_further_listener_for_others_is_not_of_this_machine_alone(world):
    settings = broker(world, pairs=("listeners=a=remoting://0.0.0.0:0",))
    assert settings.text("bindAddress") == "127.0.0.1"
    assert not [note for note in exposure_notes([("broker", settings)]) if "this machine alone: neither" in note]


def test_two_addresses_are_told_of_apart(world):
    given = [(name, broker(world, pairs=(f"bindAddress={host}",))) for name, host in TWO]
    assert [note.partition(",")[0] for note in exposure_notes(given)] == [
        "the name server listens on 10.0.0.5",
        "the broker listens on 0.0.0.0",
    ]


TWO = (("name server", "10.0.0.5"), ("broker", "0.0.0.0"))


@pytest.mark.parametrize(
    ("given", "source"),
    [
        ({"options": {"storePathRootDir": ("--store", "")}}, "--store"),
        ({"pairs": ("storePathRootDir= ",)}, "--set storePathRootDir"),
        ({"file": "storePathRootDir=\n"}, r".*broker.conf.*"),
    ],
)
def test_an_empty_folder_of_the_store_is_refused(world, tmp_path, given, source):
    """It would be the folder that the command was started in."""
    if "file" in given:
        (tmp_path / "broker.conf").write_text(given["file"])
        given = {"file": tmp_path / "broker.conf"}
    with pytest.raises(ConfigError, match=f"^{source}: storePathRootDir is empty; set a path, or omit it"):
        broker(world, **given)


@pytest.mark.parametrize("text", ["", "# brokerName=x\n\n"])
def test_a_file_without_settings_means_the_defaults(world, tmp_path, text):
    (tmp_path / "broker.conf").write_text(text)
    assert broker(world, file=tmp_path / "broker.conf").text("flushDiskType") == "SYNC_FLUSH"


def test_an_empty_path_of_a_name_server_is_refused(world):
    with pytest.raises(ConfigError, match="^--set kvConfigPath: kvConfigPath is empty"):
        name_server_settings(world, ServerArguments("test", pairs=("kvConfigPath=",)))


@pytest.mark.parametrize(
    ("lines", "bound"),
    [
        ("", "127.0.0.1"),
        ("brokerName=a", "127.0.0.1"),
        ("brokerIP1=", "127.0.0.1"),
        ("brokerIP1=127.0.0.1", "127.0.0.1"),
        ("brokerIP1=192.0.2.10", "0.0.0.0"),
        ("bindAddress=0.0.0.0", "0.0.0.0"),
        ("bindAddress=192.0.2.10\nbrokerIP1=192.0.2.10", "192.0.2.10"),
        ("bindAddress=127.0.0.1\nbrokerIP1=192.0.2.10", "127.0.0.1"),
    ],
)
@pytest.mark.parametrize("by", ["file", "pairs", "environment"])
def test_a_broker_listens_beyond_loopback_only_if_told_so(world, tmp_path, lines, bound, by):
    pairs = tuple(lines.splitlines())
    (tmp_path / "broker.conf").write_text(lines)
    world.environ.update(pair.split("=") for pair in pairs if by == "environment")
    given = {"file": {"file": tmp_path / "broker.conf"}, "pairs": {"pairs": pairs}, "environment": {}}[by]
    settings = broker(world, **given)
    assert settings.text("bindAddress") == bound
    told = [note for note in exposure_notes([("broker", settings)]) if "this machine alone: neither" in note]
    assert len(told) == (lines in ("", "brokerName=a", "brokerIP1="))


def test_a_name_server_listens_beyond_loopback_only_if_told_so(world, tmp_path):
    (tmp_path / "namesrv.conf").write_text("listenPort=0\n")
    settings = name_server_settings(world, ServerArguments("test", file=tmp_path / "namesrv.conf")).settings
    assert settings.text("bindAddress") == "127.0.0.1"
    assert exposure_notes([("name server", settings)]) == (
        "the name server listens on 127.0.0.1, this machine alone: bindAddress is not set. To let others in, set "
        "bindAddress=0.0.0.0 or one address of this machine (in the settings file, the environment or with --set)",
    )
    opened = name_server_settings(world, ServerArguments("test", pairs=("bindAddress=0.0.0.0",))).settings
    assert opened.text("bindAddress") == "0.0.0.0"
