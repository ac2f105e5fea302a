"""Settings of TLS and authentication at etcd, and what errors of etcd are said to mean."""

from pathlib import Path

import pytest

pytest.importorskip("gantrymq_replication")

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq_replication.election.etcd_access import etcd_access
from gantrymq_replication.election.etcd_client import explain
from gantrymq_replication.settings import SCHEMA, ElectionSettings, settings_without_effect
from gantrymq_testing import simulated

CERTIFICATE = b"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----\n"
KEY = b"-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----\n"
FILES = {"ca": CERTIFICATE, "cert": CERTIFICATE, "key": KEY, "both": CERTIFICATE + KEY, "word": b" secret\n", "no": b""}


def settings_of(**values):
    settings = Settings(SCHEMA)
    for key, value in values.items():
        settings.set(key, value, "the test")
    return settings


def access(mode=0o600, **values):
    async def main(world):
        files = world.files
        files.make_dirs(Path("/etc"))
        for name, content in FILES.items():
            files.replace(Path("/etc") / name, content)
        files.mode = mode
        given = {key: f"/etc/{value}" if key.endswith("Path") else value for key, value in values.items()}
        return etcd_access(settings_of(**given), files, ("etcd:2379",))

    return simulated.simulate(1, main)


def test_without_settings_there_is_no_tls_nor_user():
    rules = access()
    assert (rules.tls, rules.ca, rules.certificate, rules.key, rules.user, rules.password) == (
        False,
        *[None] * 3,
        "",
        "",
    )


def test_files_are_read():
    rules = access(etcdCaPath="ca", etcdCertPath="cert", etcdKeyPath="key", etcdUser="gantry", etcdPasswordPath="word")
    assert (rules.tls, rules.ca, rules.certificate, rules.key) == (True, CERTIFICATE, CERTIFICATE, KEY)
    assert (rules.user, rules.password) == ("gantry", "secret")
    assert access(etcdCaPath="ca", etcdCertPath="both").key == CERTIFICATE + KEY
    assert access(etcdUser="gantry", etcdPassword="open").password == "open"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"etcdKeyPath": "key"}, "etcdKeyPath without etcdCertPath"),
        ({"etcdCertPath": "cert"}, "etcdCertPath without etcdCaPath"),
        ({"etcdCaPath": "ca", "etcdCertPath": "cert"}, "etcdCertPath has no private key: set etcdKeyPath"),
        ({"etcdCaPath": "key"}, "etcdCaPath: /etc/key has no certificate in PEM"),
        ({"etcdCaPath": "ca", "etcdCertPath": "cert", "etcdKeyPath": "cert"}, "/etc/cert has no private key in PEM"),
        ({"etcdCaPath": ""}, "etcdCaPath: /etc/ is a folder"),
        ({"etcdUser": "gantry"}, "etcdUser=gantry without a password: set etcdPasswordPath, or etcdPassword"),
        ({"etcdPassword": "x"}, "etcdPassword without etcdUser"),
        ({"etcdUser": "gantry", "etcdPassword": "x", "etcdPasswordPath": "word"}, "are both set"),
        ({"etcdUser": "gantry", "etcdPasswordPath": "no"}, "must have one line with the password of gantry"),
        ({"etcdUser": "gantry", "etcdPasswordPath": "none"}, "etcdPasswordPath: there is no file /etc/none"),
    ],
)
def test_contradictions_are_refused(values, sentence):
    with pytest.raises(ConfigError) as refused:
        access(**values)
    assert sentence in str(refused.value)


def test_a_password_that_everybody_may_read_is_refused():
    with pytest.raises(ConfigError, match="may read or change /etc/word .mode 0644.; run: chmod o= /etc/word"):
        access(mode=0o644, etcdUser="gantry", etcdPasswordPath="word")


def test_passwords_are_in_no_answer():
    settings = settings_of(etcdUser="gantry", etcdPassword="secret")
    assert "etcdPassword" not in settings.shown() and settings.as_dict()["etcdPassword"] == "******"
    assert "secret" not in "".join(settings_without_effect(settings))


CONNECTING = "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:2379: "


@pytest.mark.parametrize(
    ("details", "tls", "meaning"),
    [
        (CONNECTING + "Failed to connect to remote host: Connection refused", False, "nothing listens there"),
        (CONNECTING + "Socket closed", False, "it closed the connection; if it has TLS, set etcdCaPath"),
        (CONNECTING + "Socket closed", True, "Socket closed"),
        (
            CONNECTING + "Unwrap failed (TSI_DATA_CORRUPTED)",
            True,
            "it refuses this broker's certificate: see etcdCertPath",
        ),
        ("etcdserver: no leader", False, "it knows no leader: more than half of etcd's members must be alive"),
        ("etcdserver: mvcc: database space exceeded", False, "etcdserver: mvcc: database space exceeded"),
    ],
)
def test_errors_are_explained(details, tls, meaning):
    assert explain(details, tls=tls) == meaning


# --- settings without effect -----------------------------------------------------------------------------------------

ELECTED = {"enableControllerMode": True, "controllerAddr": "c:9878"}


@pytest.mark.parametrize(
    ("values", "sentences"),
    [
        (ELECTED, []),
        ({}, []),
        (
            {"brokerRole": "SLAVE", "brokerId": -1, **ELECTED},  # as in RocketMQ's example files
            ["the role of this broker is elected, so these settings have no effect: brokerRole=SLAVE, brokerId=-1"],
        ),
        (
            {"controllerAddr": "c:9878", "asyncLearner": True},
            [
                "without enableControllerMode=true these settings have no effect: controllerAddr=c:9878, "
                "asyncLearner=True"
            ],
        ),
        (
            {"etcdUser": "gantry", **ELECTED},
            ["with electionEngine=controller these settings have no effect: etcdUser=gantry"],
        ),
        (
            {"electionEngine": "etcd", "etcdEndpoints": "e:1", **ELECTED},
            ["with electionEngine=etcd these settings have no effect: controllerAddr=c:9878"],
        ),
        (
            {"inSyncReplicas": 3, "minInSyncReplicas": 2, **ELECTED},
            [
                "the role of this broker is elected, so an acknowledgement waits for its whole in-sync set, and "
                "minInSyncReplicas=2 says how many that must be; these settings have no effect: inSyncReplicas=3"
            ],
        ),
        *(
            (
                {"fencing": fencing, "allAckInSyncStateSet": False, **ELECTED},
                [
                    f"with fencing={fencing} an acknowledgement waits for the whole in-sync set, so this setting has "
                    "no effect: allAckInSyncStateSet=false; fencing=rocketmq acknowledges what only the master has, "
                    "which is lost with it"
                ],
            )
            for fencing in ("strict", "failsafe")
        ),
        ({"fencing": "rocketmq", "allAckInSyncStateSet": False, **ELECTED}, []),
    ],
)
def test_settings_without_effect_are_named(values, sentences):
    assert [*settings_without_effect(settings_of(**values))] == sentences


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"controllerAddr": ""}, "needs controllerAddr, host:port;host:port"),
        ({"controllerAddr": "", "etcdEndpoints": "e:1"}, "; set electionEngine=etcd to use etcdEndpoints"),
        ({"controllerAddr": "nowhere"}, "the test: controllerAddr: 'nowhere' is not host:port"),
        ({"controllerAddr": "http://c:9878"}, "the test: controllerAddr: 'http://c:9878' is not host:port"),
        ({"enableSlaveActingMaster": True}, "choose one of them"),
        ({"fencing": "rocketmq", "inSyncReplicas": 2}, "inSyncReplicas=2 with fencing=rocketmq is not implemented"),
    ],
)
def test_settings_that_contradict_elections_are_refused(values, sentence):
    with pytest.raises(ConfigError) as refused:
        ElectionSettings.of(settings_of(**{**ELECTED, **values}), Path("/store"))
    assert sentence in str(refused.value)


@pytest.mark.parametrize("key", ["etcdEndpoints", "controllerAddr"])
def test_addresses_are_separated_by_semicolons_or_commas(key):
    values = {**ELECTED, "electionEngine": "etcd" if key == "etcdEndpoints" else "controller", key: "a:1, b:2;c:3"}
    found = ElectionSettings.of(settings_of(**values), Path("/store"))
    assert found.endpoints + found.controllers == ("a:1", "b:2", "c:3")
