"""Layers of settings: precedence, notes, and errors."""

import pytest

from gantrymq.config import Setting
from gantrymq.errors import ConfigError
from gantrymq.settings_file import Line
from gantrymq.settings_load import (
    BROKER_DEFAULTS,
    NAME_SERVER_DEFAULTS,
    NOT_BUILT,
    Given,
    build_settings,
    command_layer,
    environment_layer,
    file_layer,
    flag_layer,
    refusal,
    strongest,
)

SCHEMA = [
    Setting("listenPort", "number", 10911, "Port.", at_least=0, at_most=65535),
    Setting("brokerName", "text", "", "Name."),
    Setting("traceOn", "flag", True, "Trace."),
    Setting("flushDiskType", "text", "SYNC_FLUSH", "Flush.", choices=("SYNC_FLUSH", "ASYNC_FLUSH")),
]


def build(*layers):
    return build_settings(SCHEMA, layers)


def flags(*pairs):
    return flag_layer(pairs)


def test_defaults_are_the_schema_s():
    settings, notes = build()
    assert settings.number("listenPort") == 10911
    assert settings.source("listenPort") == "default"
    assert notes == ()


def test_each_layer_beats_the_ones_before_it():
    layers = [
        command_layer("gantrymq start", {"listenPort": "1", "brokerName": "command", "traceOn": "false"}),
        file_layer("broker.conf", [Line("listenPort", "2", 4), Line("brokerName", "file", 5)]),
        environment_layer({"listenPort": "3", "PATH": "/bin"}, SCHEMA),
        flags("listenPort=4"),
    ]
    seen = []
    for count in range(5):
        settings, _ = build_settings(SCHEMA, layers[:count])
        seen.append((settings.number("listenPort"), settings.source("listenPort")))
    assert seen == [
        (10911, "default"),
        (1, "gantrymq start"),
        (2, "broker.conf line 4"),
        (3, "environment variable listenPort"),
        (4, "--set listenPort"),
    ]
    assert settings.text("brokerName") == "file"
    assert settings.flag("traceOn") is False


def test_the_later_of_two_equal_keys_in_a_file_counts():
    settings, _ = build(file_layer("f", [Line("listenPort", "1", 1), Line("listenPort", "2", 2)]))
    assert (settings.number("listenPort"), settings.source("listenPort")) == (2, "f line 2")


def test_environment_variables_that_are_no_settings_are_left_alone():
    assert environment_layer({"HOME": "/root", "brokerNames": "x"}, SCHEMA).entries == {}


def test_a_value_may_contain_an_equals_sign():
    settings, _ = build(flags("brokerName=a=b"))
    assert settings.text("brokerName") == "a=b"


@pytest.mark.parametrize("pair", ["listenPort", "=1", " =1"])
def test_a_flag_that_is_no_pair_is_refused(pair):
    with pytest.raises(ConfigError, match="write key=value"):
        flags(pair)


@pytest.mark.parametrize(
    ("key", "hint"),
    [("listenport", " (did you mean listenPort?)"), ("brokerNam", " (did you mean brokerName?)"), ("zzz", "")],
)
def test_an_unknown_key_is_noted_with_the_nearest_one(key, hint):
    _, notes = build(file_layer("broker.conf", [Line("brokerName", "b", 6), Line(key, "1", 7)]))
    assert notes == (f"broker.conf line 7: there is no setting {key}; it is ignored{hint}",)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        (["zzz", "yyy"], "it begins with 'zzz', a settings file has lines such as brokerName=broker-a"),
        (["listenport"], "it begins with 'listenport' (did you mean listenPort?), a settings file has lines such as"),
    ],
)
def test_a_file_without_a_known_key_is_refused(keys, says):
    lines = [Line(key, "1", number) for number, key in enumerate(keys, 1)]
    with pytest.raises(ConfigError) as caught:
        build(file_layer("notes.txt", lines))
    assert str(caught.value).startswith(f"notes.txt has no setting that this server knows; {says}")


@pytest.mark.parametrize("key", ["listenPort", "sendMessageThreadPoolNums"])
def test_one_key_that_rocketmq_knows_makes_a_settings_file(key):
    build(file_layer("broker.conf", [Line("zzz", "1", 1), Line(key, "1", 2)]))
    build(file_layer("empty.conf", []))


def test_a_line_without_a_separator_is_refused_unless_its_key_is_known():
    known = Line("brokerName", "a", 1, bare=True)
    assert build(file_layer("broker.conf", [known])).settings.text("brokerName") == "a"
    with pytest.raises(
        ConfigError, match="broker.conf line 2: 'hello' is not a setting; a settings file has lines such"
    ):
        build(file_layer("broker.conf", [known, Line("hello", "world", 2, bare=True)]))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("broker-a # note", ["what follows # is part of brokerName; give a comment a line of its own"]),
        ("broker-a\t#note", ["what follows # is part of brokerName; give a comment a line of its own"]),
        ('"broker-a"', ["the quotes are part of brokerName; leave them out"]),
        ("'broker-a' ", ["the quotes are part of brokerName; leave them out"]),
        ("broker#a", []),
        ("broker's", []),
        ('"', []),
    ],
)
def test_a_comment_behind_a_value_and_quotes_around_one_are_noted(value, says):
    settings, notes = build(file_layer("broker.conf", [Line("brokerName", value, 3)]))
    assert settings.text("brokerName") == value.strip()
    assert list(notes) == [f"broker.conf line 3: {each}" for each in says]


def test_keys_that_only_rocketmq_uses_are_listed_in_one_note():
    _, notes = build(flags("sendMessageThreadPoolNums=4", "brokerFastFailureEnable=false", "traceOn=true"))
    assert notes == (
        "these settings of RocketMQ have no effect here: brokerFastFailureEnable, sendMessageThreadPoolNums",
    )


@pytest.mark.parametrize(
    ("pair", "part"),
    [
        ("brokerRole=SLAVE", "replication"),
        ("brokerRole=SYNC_MASTER", "replication"),
        ("brokerId=1", "replication"),
        ("enableDLegerCommitLog=true", "DLedger"),
        ("enableControllerMode=true", "replication"),
        ("enableControllerInNamesrv=true", "controller"),
        ("storeType=defaultRocksDB", "RocksDB"),
        ("aclEnable=true", "access control"),
        ("authenticationEnabled=TRUE", "access control"),
        ("tlsMode=enforcing", "TLS"),
        ("enableProxy=true", "listeners=sdk=grpc://0.0.0.0:8081"),
        ("grpcServerPort=8081", "listeners=sdk=grpc://0.0.0.0:8081"),
        ("inSyncReplicas=2", "replication"),
        ("metricsExporterType=PROM", "metrics"),
        ("defaultMessageRequestMode=POP", "pop"),
        ("enableLmq=true", "light queues"),
    ],
)
def test_asking_for_what_is_not_built_stops_with_a_sentence(pair, part):
    with pytest.raises(ConfigError, match=part) as caught:
        build(flags(pair))
    assert str(caught.value).startswith(f"--set {pair.partition('=')[0]}: {pair}: ")


def test_a_flag_that_selects_another_value_than_the_given_one_is_refused():
    schema = [Setting("chosen", "text", "", "Chosen."), Setting("old", "flag", False, "Old.", selects=("chosen", "x"))]
    assert build_settings(schema, [flags("old=true")]).settings.text("chosen") == "x"
    file = file_layer("broker.conf", [Line("chosen", "y", 3, False)])
    with pytest.raises(ConfigError) as caught:
        build_settings(schema, [file, flags("old=true")])
    assert str(caught.value) == (
        "--set old: old=true selects chosen=x, and broker.conf line 3 has chosen=y; keep one of the two"
    )


def test_not_asking_for_it_is_fine():
    words = ["brokerRole=ASYNC_MASTER", "brokerId=0", "aclEnable=false", "storeType=default", "inSyncReplicas=1"]
    _, notes = build(flags(*words))
    assert len(notes) == 1


def test_the_environment_can_ask_for_it_too():
    with pytest.raises(ConfigError, match="environment variable brokerRole: brokerRole=SLAVE: replication"):
        build(environment_layer({"brokerRole": "SLAVE"}, SCHEMA))


def test_a_declared_key_is_its_owner_s_business():
    declared = [Setting("enableLmq", "flag", False, "Light queues.")]
    settings, notes = build_settings(declared, [flags("enableLmq=true")])
    assert settings.flag("enableLmq") is True
    assert notes == ()


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        ("listenPort=many", "is not a whole number"),
        ("listenPort=70000", "above the largest allowed value 65535"),
        ("listenPort=-1", "below the smallest allowed value 0"),
        ("traceOn=yes", "neither true nor false"),
        ("flushDiskType=NEVER", "is not one of SYNC_FLUSH, ASYNC_FLUSH"),
    ],
)
def test_a_value_that_does_not_fit_names_place_and_reason(pair, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        build(flags(pair))
    assert str(caught.value).startswith("--set ")


def test_the_strongest_text_can_be_asked_for_before_the_schema_is_known():
    layers = [command_layer("c", {"plugins": "a"}), flag_layer([], {"plugins": Given("b", "--plugins")})]
    assert strongest(layers, "plugins") == Given("b", "--plugins")
    assert strongest(layers, "other") is None


@pytest.mark.parametrize("defaults", [BROKER_DEFAULTS, NAME_SERVER_DEFAULTS])
def test_nothing_that_is_not_built_is_on_by_default_in_rocketmq(defaults):
    assert [key for key, text in defaults.items() if text and refusal(key, text)] == []


def test_every_refusal_is_a_sentence_part():
    for key, (_, sentence) in NOT_BUILT.items():
        assert len(sentence) > 15, key
        assert not sentence.endswith("."), key


def test_periods_of_the_controller_mode_are_accepted_and_named():
    """They say how often RocketMQ's broker asks its controller; ours asks each second and after each change."""
    periods = "checkSyncStateSetPeriod", "syncBrokerMetadataPeriod", "syncControllerMetadataPeriod"
    assert all(each in BROKER_DEFAULTS and refusal(each, "1000") is None for each in periods)
    assert (
        refusal("fetchControllerAddrByDnsLookup", "true") == "controllers are not looked up in DNS; set controllerAddr"
    )
