"""A user without $HOME and without an entry in passwd, as in some containers."""

import pwd
from importlib.util import find_spec
from pathlib import Path

import pytest

from gantrymq.cli.server_settings import ServerArguments, broker_settings, name_server_settings, store_root
from gantrymq.errors import ConfigError
from gantrymq.world.real import real_world

needs_name_server = pytest.mark.skipif(find_spec("gantrymq_nameserver") is None, reason="needs gantrymq-nameserver")
REASON = r"because \$HOME is not set and the user has no entry in passwd"


@pytest.fixture(autouse=True)
def no_home(monkeypatch):
    def unknown(_):
        raise KeyError

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(RuntimeError):
        Path.home()


def arguments(**options):
    return ServerArguments("gantrymq start", options={key: (f"--{key}", value) for key, value in options.items()})


def test_a_broker_needs_no_home_if_its_store_is_given():
    settings = broker_settings(real_world(), arguments(storePathRootDir="/data/store")).settings
    assert store_root(settings) == Path("/data/store")


def test_a_broker_without_a_store_is_refused_with_the_option():
    with pytest.raises(ConfigError, match=f"^storePathRootDir has no default {REASON}; --store DIR sets it$"):
        broker_settings(real_world(), arguments())


def test_a_path_below_the_home_folder_is_refused():
    settings = broker_settings(real_world(), arguments(storePathRootDir="~/store")).settings
    with pytest.raises(ConfigError, match=r"^--storePathRootDir: storePathRootDir is ~/store, but \$HOME is not set"):
        store_root(settings)


@needs_name_server
def test_a_name_server_needs_no_home_if_its_files_are_given():
    settings = name_server_settings(real_world(), arguments(kvConfigPath="/data/kv.json")).settings
    assert settings.text("kvConfigPath") == "/data/kv.json"
    with pytest.raises(ConfigError, match=f"^kvConfigPath has no default {REASON}; --set kvConfigPath=PATH sets it$"):
        name_server_settings(real_world(), arguments())
