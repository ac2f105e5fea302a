"""What a ready line says, and when a broker's address misleads."""

import asyncio

import pytest

from gantrymq.cli import serving
from gantrymq.cli.server_settings import Asked, broker_settings, name_server_settings, options, store_root
from gantrymq.cli.serving import Servers, advertises_loopback
from gantrymq.errors import ConfigError, PluginError
from gantrymq.world.real import real_world


@pytest.fixture
def world(monkeypatch):
    for key in ("NAMESRV_ADDR", "listenPort", "brokerName"):
        monkeypatch.delenv(key, raising=False)
    return real_world()


def broker(world, **asked):
    return broker_settings(world, Asked("test", **asked), strict=False).settings


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
    settings = broker(world, file=file, options=options(listenPort=("--port", 2), brokerName=("--name", None)))
    assert (settings.number("listenPort"), settings.source("listenPort")) == (2, "--port")
    assert settings.text("brokerName") == "of-file"


def test_what_a_name_server_changes_is_written_to_the_file_it_was_given(world, tmp_path):
    file = tmp_path / "namesrv.conf"
    file.write_text("listenPort=9999\n")
    settings, notes = name_server_settings(world, Asked("test", file))
    assert settings.text("configStorePath") == str(file)
    assert settings.number("listenPort") == 9999
    assert notes == ()


def test_what_is_not_built_is_refused(world):
    with pytest.raises(ConfigError, match="brokerRole"):
        broker(world, pairs=("brokerRole=SLAVE",))


def test_a_missing_store_plugin_is_found_before_any_port_is_open(world, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(serving, "NameServer", lambda *given: started.append(given))
    asked = Asked("test", pairs=("store=nowhere", f"storePathRootDir={tmp_path / 'store'}"))
    name_server = name_server_settings(world, Asked("test"))
    servers = Servers(world, name_server, broker_settings(world, asked, strict=False))
    with pytest.raises(PluginError, match="store"):
        asyncio.run(servers.start())
    assert started == []
    assert not (tmp_path / "store").exists()
