"""A broker in a process, with a Debian etcd that has TLS, asks for certificates of clients, and has users."""

import re

import pytest

pytest.importorskip("gantrymq_replication")
pytest.importorskip("aetcd")

from certificates import make_certificate
from etcd_servers import etcdctl, start_etcd
from harness import GantryServer
from harness.probe import request, route_of
from polling import wait_until

pytestmark = pytest.mark.interop
WORD = "correct-horse-7"
GET_BROKER_CONFIG, EXPLAINED_SETTINGS = 25 + 1, 65026


def test_tls_and_users_by_settings(running, tmp_path):
    authority, client = make_certificate(tmp_path, "ca"), make_certificate(tmp_path, "client", authority="ca")
    server = make_certificate(tmp_path, "server", "/CN=server", "ca", names="IP:127.0.0.1")
    tls = ("--cert-file", server, "--key-file", str(tmp_path / "server.key"), "--client-cert-auth")
    [etcd] = start_etcd(running, tmp_path, 1, (*tls, "--trusted-ca-file", authority))
    options = ["--cacert", authority, "--cert", client, "--key", str(tmp_path / "client.key")]
    for words in (
        "user add root:secret",
        "user grant-role root root",
        f"user add gantry:{WORD}",
        "role add gantry",
        "role grant-permission --prefix=true gantry readwrite /gantry/",
        "user grant-role gantry gantry",
        "auth enable",
    ):
        etcdctl(etcd, *words.split(), options=options)
    passwords = {}
    for name, word in (("right", WORD), ("wrong", "battery-staple-7")):
        passwords[name] = tmp_path / f"password-{name}"
        passwords[name].write_text(word + "\n")
        passwords[name].chmod(0o600)
    settings = {
        "enableControllerMode": "true",
        "electionEngine": "etcd",
        "etcdEndpoints": etcd.endpoint,
        "etcdCaPath": authority,
        "etcdCertPath": client,
        "etcdKeyPath": str(tmp_path / "client.key"),
        "etcdUser": "gantry",
        "etcdPasswordPath": str(passwords["right"]),
        "mappedFileSizeCommitLog": "1048576",
    }
    namesrv = running(GantryServer.name_server(tmp_path / "namesrv")).namesrv

    def broker(name, **more):
        return running(GantryServer.broker(tmp_path / name, namesrv, settings={**settings, **more}))

    one = broker("one")
    wait_until(lambda: f'"{one.broker_address}"' in (route_of(namesrv, "TBW102") or ""), "a master", 30, one.tail)
    brokers = [one]
    for word, path in (("open", ""), ("wrong", str(passwords["wrong"]))):
        other = broker(word, brokerName=f"broker-{word}", etcdPasswordPath=path, etcdPassword="" if path else WORD)
        if path:
            sentence = "refuses user 'gantry': its name or password is wrong; see etcdUser and etcdPasswordPath"
            wait_until(lambda: sentence in other.tail(), "sentence", 20, other.tail)  # noqa: B023
        else:
            master = re.compile(rf'"?0"?:"{other.broker_address}"')
            wait_until(lambda: master.search(route_of(namesrv, "TBW102") or ""), "a master", 30, other.tail)  # noqa: B023
        for code in (GET_BROKER_CONFIG, EXPLAINED_SETTINGS):
            answer, body = request(other.broker_address, code, {})
            assert answer["code"] == 0 and b"etcdUser" in body
            assert WORD.encode() not in body and b"etcdPassword" not in body and b"client.key" not in body
        brokers.append(other)
    logs = "".join(each._err.read_text(errors="replace") for each in brokers)
    assert "refuses user" in logs and WORD not in logs and "battery-staple-7" not in logs
