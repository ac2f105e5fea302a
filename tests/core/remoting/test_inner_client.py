"""The account of a server for requests to other servers."""

import json

import pytest

from gantrymq.config import Settings
from gantrymq.errors import ConfigError
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.inner_client import INNER_CREDENTIALS, inner_credentials, refused
from gantrymq.remoting.server import RemotingServer
from gantrymq_testing.simulated import simulate

SECRET = "secret-of-the-cluster"
GOOD = {"accessKey": "inner", "secretKey": SECRET}


def read(text):
    return inner_credentials(Settings([INNER_CREDENTIALS], {INNER_CREDENTIALS.key: text}))


def test_the_account_is_javas_json():
    account = read(json.dumps(GOOD))
    assert (account.access_key, account.secret_key, account.security_token) == ("inner", SECRET, None)
    assert SECRET not in repr(account) and read("") is None


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps([SECRET]),
        json.dumps({"accessKey": "inner", "secret": SECRET}),
        json.dumps({**GOOD, "accessKey": " "}),
        json.dumps({**GOOD, "accessKey": 1}),
        json.dumps({**GOOD, "secretKey": None}),
        json.dumps({**GOOD, "more": 1}),
    ],
)
def test_another_value_is_refused_without_showing_it(text):
    with pytest.raises(ConfigError, match="given in code: innerClientAuthenticationCredentials") as raised:
        read(text)
    assert SECRET not in str(raised.value)


def test_each_call_and_oneway_request_is_signed_once():
    """Also the second attempt after GO_AWAY, whose fields are those of the first."""
    seen, signed = [], []

    class Server:
        def requests(self, connection, commands):
            for each in commands:
                seen.append((each.code, dict(each.ext or {})))
                if not each.is_oneway:
                    connection.reply(each, Command(1500 if len(seen) == 1 else 0))

    def sign(command):
        signed.append(command.code)
        command.ext = {**(command.ext or {}), "AccessKey": str(len(signed))}

    async def main(world):
        server = RemotingServer(world, Server())
        host, port = await server.start("127.0.0.1", 0)
        client = RemotingClient(world, sign=sign)
        answer = await client.call(f"{host}:{port}", request(RequestCode.GET_BROKER_CONFIG, {"a": "b"}))
        await client.oneway(f"{host}:{port}", request(RequestCode.HEART_BEAT, oneway=True))
        await client.close()
        await server.stop()
        return answer.code

    assert simulate(1, main) == 0
    assert seen == [(26, {"a": "b", "AccessKey": "1"}), (26, {"a": "b", "AccessKey": "1"}), (34, {"AccessKey": "2"})]


@pytest.mark.parametrize(
    ("code", "remark", "names"),
    [
        (16, "username cannot be null.", True),
        (16, "User:inner has no permission to access Cluster:c: Update is not allowed", True),
        (1, "org.apache.rocketmq.acl.common.AclException: No accessKey is configured, org.apache.Some.java(12)", True),
        (16, "the broker is not writable", False),
        (1, "some failure", False),
        (17, "check signature failed", False),
    ],
)
def test_only_refusals_of_access_name_the_setting(code, remark, names):
    async def main(world):
        return [
            refused(RemotingClient(world, sign=sign), Command(code, remark=remark), "10.0.0.1:1").remark
            for sign in (None, lambda command: None)
        ]

    unsigned, signed = simulate(1, main)
    assert ("set innerClientAuthenticationCredentials of this server" in unsigned) is names
    assert ("check the account in innerClientAuthenticationCredentials" in signed) is names
    assert unsigned.startswith(remark.rstrip("."))
