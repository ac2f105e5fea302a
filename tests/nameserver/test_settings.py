"""The schema: RocketMQ's keys and defaults, and features that are not implemented."""

from __future__ import annotations

from pathlib import Path

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq_nameserver.settings import name_server_settings


def test_paths_lie_below_the_home_folder_or_another(tmp_path):
    assert Settings(name_server_settings()).text("kvConfigPath") == str(Path.home() / "namesrv" / "kvConfig.json")
    assert Settings(name_server_settings(tmp_path)).text("configStorePath") == str(
        tmp_path / "namesrv" / "namesrv.properties"
    )


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("listenPort", 9876),
        ("bindAddress", "0.0.0.0"),
        ("orderMessageEnable", False),
        ("returnOrderTopicConfigToBroker", True),
        ("scanNotActiveBrokerInterval", 5000),
        ("supportActingMaster", False),
        ("notifyMinBrokerIdChanged", False),
        ("enableAllTopicList", True),
        ("enableTopicList", True),
        ("deleteTopicWithBrokerRegistration", False),
        ("needWaitForService", False),
        ("waitSecondsForService", 45),
        ("unRegisterBrokerQueueCapacity", 3000),
        ("configBlackList", "configBlackList;configStorePath;kvConfigPath"),
        ("clientRequestThreadPoolNums", 8),
        ("defaultThreadPoolNums", 16),
    ],
)
def test_defaults_are_rocketmq_s(key, default):
    assert Settings(name_server_settings()).as_dict()[key] == default


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("clusterTest", "true", "not built"),
        ("enableControllerInNamesrv", "true", "not built"),
        ("listenPort", "70000", "65535"),
        ("scanNotActiveBrokerInterval", "0", "smallest"),
        ("enableTopicList", "yes", "neither"),
    ],
)
def test_what_is_not_built_or_does_not_fit_is_refused(key, value, sentence):
    with pytest.raises(ConfigError, match=sentence):
        Settings(name_server_settings(), {key: value})


def test_every_key_has_a_sentence_of_help_and_comes_once():
    schema = name_server_settings()
    assert all(setting.help for setting in schema)
    assert len({setting.key for setting in schema}) == len(schema)
