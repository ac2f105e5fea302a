"""``gantrymq config``."""

import json

import pytest
from click.testing import CliRunner

from gantrymq.cli import main


def invoke(*words, env=None):
    return CliRunner(env=env).invoke(main, ["config", *words])


def explain(key, *words, env=None):
    result = invoke("--explain", key, *words, "--output", "json", env=env)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_explains_type_default_value_source_and_rocketmq_s_default():
    found = explain("flushDiskType")
    assert found["key"] == "flushDiskType"
    assert found["type"] == "text"
    assert found["choices"] == ["SYNC_FLUSH", "ASYNC_FLUSH"]
    assert found["default"] == found["value"] == "SYNC_FLUSH"
    assert found["from"] == "default"
    assert found["rocketmq_default"] == "ASYNC_FLUSH"
    assert "disk" in found["meaning"]


def test_a_default_that_is_rocketmq_s_is_not_named_twice():
    assert explain("registerNameServerPeriod")["rocketmq_default"] is None


def test_text_for_people_has_the_same_facts():
    result = invoke("--explain", "flushDiskType")
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if not line.startswith("rocketmq"))
    assert lines["default"] == "SYNC_FLUSH"
    assert "rocketmq default  ASYNC_FLUSH" in result.stdout


def test_says_where_the_value_in_force_comes_from(tmp_path):
    file = tmp_path / "broker.conf"
    file.write_text("# ours\nbrokerName=from-file\nlistenPort=1\n")
    assert explain("brokerName", "-c", str(file))["from"] == f"{file} line 2"
    environ = {"listenPort": "2"}
    assert explain("listenPort", "-c", str(file), env=environ)["from"] == "environment variable listenPort"
    assert explain("listenPort", "-c", str(file), "--set", "listenPort=3", env=environ)["value"] == 3


def test_a_key_of_the_name_server_alone_is_found_too():
    assert explain("kvConfigPath")["server"] == "nameserver"
    assert explain("listenPort", "--server", "nameserver")["default"] == 9876


def test_a_key_that_nobody_knows_says_which_is_near():
    result = invoke("--explain", "flushDiskTyp")
    assert result.exit_code == 1
    assert "there is no setting flushDiskTyp (did you mean flushDiskType?)" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("key", "server", "default", "sentence"),
    [
        ("debugLockEnable", "broker", "false", "known to RocketMQ, no effect in this version"),
        ("sharedByteBufferNum", "broker", "16", "known to RocketMQ, no effect in this version"),
        (
            "enableDLegerCommitLog",
            "broker",
            "false",
            "known to RocketMQ, for a feature that is not implemented here: DLedger",
        ),
    ],
)
def test_a_key_of_rocketmq_that_has_no_effect_is_explained_too(key, server, default, sentence):
    found = explain(key)
    assert found.pop("meaning").startswith(sentence)
    assert found == {"key": key, "server": server, "rocketmq_default": default}
    assert sentence in invoke("--explain", key).stdout


def test_lists_every_value_with_its_source():
    result = invoke("--output", "json", "--set", "brokerName=b")
    found = json.loads(result.stdout)
    assert found["brokerName"] == {"value": "b", "source": "--set brokerName"}
    assert found["flushDiskType"]["source"] == "default"


def test_warnings_go_to_stderr():
    result = invoke("--output", "json", "--set", "listenPrt=1")
    json.loads(result.stdout)
    assert "there is no setting listenPrt; it is ignored (did you mean listenPort?)" in result.stderr


def test_a_flag_for_what_is_not_built_is_wrong_usage():
    result = invoke("--set", "enableDLegerCommitLog=true")
    assert result.exit_code == 2
    assert "DLedger is not implemented" in result.stderr
