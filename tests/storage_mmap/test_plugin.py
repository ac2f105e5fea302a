import pytest

from gantrymq.broker.settings import SCHEMA as BROKER_SCHEMA
from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.interfaces import StoreContext
from gantrymq.world.real import real_world
from gantrymq_storage_mmap import plugin
from gantrymq_storage_mmap.settings import SCHEMA
from gantrymq_storage_mmap.store import MmapStore


class Stores(dict):
    def add(self, name, factory):
        self[name] = factory


class Keys(list):
    add = list.append


def test_the_plugin_offers_the_store_mmap_and_its_keys(tmp_path):
    stores, keys = Stores(), Keys()
    plugin.gantry_register_stores(stores)
    plugin.gantry_register_config(keys)
    assert list(stores) == ["mmap"]
    assert type(stores["mmap"](StoreContext(real_world(), tmp_path, Settings((*BROKER_SCHEMA, *SCHEMA))))) is MmapStore
    assert keys == list(SCHEMA)


def test_no_key_is_declared_by_the_broker_too():
    assert {setting.key for setting in SCHEMA}.isdisjoint(setting.key for setting in BROKER_SCHEMA)


def test_defaults_are_those_of_rocketmq():
    settings = Settings(SCHEMA)
    assert settings.number("mappedFileSizeCommitLog") == 1 << 30
    assert settings.number("mappedFileSizeConsumeQueue") == 300_000 * 20
    assert settings.number("maxTransferBytesOnMessageInMemory") == 256 * 1024
    assert settings.number("maxTransferCountOnMessageInMemory") == 256  # 32 there; readers who ask for less get less


@pytest.mark.parametrize("setting", [setting for setting in SCHEMA if setting.not_built and setting.kind == "flag"])
def test_what_is_not_built_cannot_be_switched_on(setting):
    Settings(SCHEMA, {setting.key: "false"})
    with pytest.raises(ConfigError, match="not implemented"):
        Settings(SCHEMA, {setting.key: "true"})


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("storePathCommitLog", "/a,/b", "several folders"),
        ("storeType", "defaultRocksDB", "RocksDB"),
        ("messageDelayLevel", "1s 5x", "'5x' is not a whole number with a unit"),
        ("mappedFileSizeCommitLog", "100", "below the smallest"),
    ],
)
def test_a_value_that_cannot_be_served_is_refused_with_a_sentence(key, value, says):
    with pytest.raises(ConfigError, match=says):
        Settings(SCHEMA, {key: value})
