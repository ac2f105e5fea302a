"""Checks of every signature (``each_request``) by the secrets that an authorizer offers."""

from __future__ import annotations

import attrs
import pytest
from broker_desk import ADDRESS, records, run_broker, send_header, topic_ext

from gantrymq.broker.wire import send_templates
from gantrymq.client.calls.credentials import Credentials
from gantrymq.errors import NoPermission
from gantrymq.hooks import hookimpl
from gantrymq.loose_json import dumps
from gantrymq.model.access import Decision, Principal, is_signature
from gantrymq.plugins import load_plugins
from gantrymq.remoting import sends
from gantrymq.remoting.codes import SERIALIZE_BINARY
from gantrymq.remoting.command import request
from gantrymq.remoting.signatures import Signer

KEY = "orders"


class Keys:
    """A stateless authorizer: records whom it authenticates; with ``secrets_of``."""

    each_request = True

    def __init__(self):
        self.secrets = {KEY: [b"new secret", b"old secret"]}
        self.authenticated, self.refused = [], set()
        self.unsigned = False  # whether it accepts any signature

    def authenticate(self, credentials, client):
        name = credentials.access_key
        self.authenticated.append(name)
        good = is_signature(credentials.signature, credentials.signed_content(), self.secrets.get(name, ()))
        if name and not good and not self.unsigned:
            raise NoPermission("check signature failed.")
        return Principal(name or "anonymous")

    def authorize(self, principal, actions, resource):
        return Decision(principal.name not in self.refused)

    def secrets_of(self, access_key):
        return self.secrets.get(access_key, ())


@pytest.fixture
def keys():
    return Keys()


@pytest.fixture(params=["twins", "python"])
def run(request, plugins, keys, monkeypatch):
    """``run(main)`` runs ``await main(desk)`` against a broker with the authorizer."""
    if request.param == "python":
        monkeypatch.setattr(send_templates, "make_messages", send_templates._make_messages)
        monkeypatch.setattr(sends, "_read_signed", None)

    class Module:
        @hookimpl
        def gantry_register_authorizers(self, registry):
            registry.add("keys", lambda context: keys)

    loaded = load_plugins(extra=[("keys", Module())], installed=False)

    async def with_topic(main, desk):
        assert (await desk.ask(17, topic_ext("A", 4))).code == 0
        keys.authenticated.clear()
        await main(desk)

    def run(main):
        given = attrs.evolve(plugins, authorizers=loaded.authorizers)
        return run_broker(given, lambda desk: with_topic(main, desk), authorizer="keys")

    return run


@pytest.fixture
def together(monkeypatch):
    """How many sends were stored without further checks."""
    made = []
    original = send_templates.SendTemplateCache.together

    def counted(self, *given):
        found = original(self, *given)
        made.extend(found)
        return found

    monkeypatch.setattr(send_templates.SendTemplateCache, "together", counted)
    return made


def signed(ext, body=None, secret="new secret", key=KEY):
    """The header fields of a signed request."""
    command = request(310, dict(ext), body)
    Signer(Credentials(key, secret)).sign(command)
    return command.ext


def sending(number, properties="TAGS\x01t\x02", **more):
    return send_header("A", properties=f"{properties}UNIQ_KEY\x01ID{number}\x02", **more).to_ext_v2()


async def warm(desk, **more):
    """Send until sends that are alike need no other checks than their signatures."""
    for number in range(4):
        answer = await desk.ask(310, signed(sending(number, **more), b"first"), b"first")
        assert answer.code == 0


async def stored(desk):
    return [bytes(each.body) for each in records(await desk.pull("A")) if bytes(each.body) != b"first"]


def test_each_signature_of_a_read_is_checked_and_a_wrong_one_refuses_its_send_only(run, keys, together):
    async def main(desk):
        await warm(desk)
        del together[:], keys.authenticated[:]
        asked = []
        for number in range(12):
            body = b"body %d" % number
            ext = signed(sending(number), body, secret="wrong" if number in (5, 6, 11) else "new secret")
            asked.append(desk.later(310, ext, body))
        codes = [(await each).code for each in asked]
        assert codes == [16 if number in (5, 6, 11) else 0 for number in range(12)]
        assert await stored(desk) == [b"body %d" % number for number in range(12) if number not in (5, 6, 11)]
        assert len(together) == 9
        assert keys.authenticated.count(KEY) == 3  # for its refusal
        assert (await asked[5]).remark.endswith("check signature failed.")

    run(main)


def test_only_the_first_request_of_a_code_is_authenticated_until_forget(run, keys, together):
    async def main(desk):
        await warm(desk)
        for _ in range(3):
            assert (await desk.ask(26, signed({}))).code == 0
        assert keys.authenticated == [KEY] * 2  # codes 310 and 26
        desk.tables.access.forget()
        await warm(desk)
        assert (await desk.ask(26, signed({}))).code == 0
        assert keys.authenticated == [KEY] * 4

    run(main)


def changed(fields):
    return lambda ext, body: ({**ext, **fields}, body)


@pytest.mark.parametrize(
    "change",
    [
        changed({"b": "B"}),
        changed({"e": "1"}),
        changed({"g": "12345"}),
        changed({"i": "TAGS\x01t\x02UNIQ_KEY\x01OTHER\x02"}),
        changed({"bname": "broker-a"}),
        changed({"SecurityToken": "token"}),
        changed({"Signature": "AAAAAAAAAAAAAAAAAAAAAAAAAAA="}),
        changed({"Signature": ""}),
        changed({"AccessKey": "other"}),
        lambda ext, body: (ext, b"changed"),
        lambda ext, body: (ext, None),
        lambda ext, body: ({name: value for name, value in ext.items() if name != "Signature"}, body),
        lambda ext, body: ({name: value for name, value in ext.items() if name != "m"}, body),
        lambda ext, body: ({**ext, "Signature": ext["Signature"].rstrip("=")}, body),
    ],
)
def test_a_request_that_was_changed_after_signing_is_refused(run, keys, change):
    keys.secrets["other"] = [b"secret of another user"]

    async def main(desk):
        assert (await desk.ask(17, topic_ext("B", 4))).code == 0
        await warm(desk)
        ext, body = change(signed(sending(5), b"body"), b"body")
        for _ in range(3):
            assert (await desk.ask(310, ext, body)).code == 16
        assert (await desk.ask(310, signed(sending(5), b"body"), b"body")).code == 0
        assert await stored(desk) == [b"body"]

    run(main)


def test_a_request_that_is_sent_again_is_accepted(run, together):
    """As in RocketMQ: a signature has no time."""

    async def main(desk):
        await warm(desk)
        ext = signed(sending(5), b"body")
        for peer in (desk, desk, desk.peer()):
            assert (await peer.ask(310, ext, b"body")).code == 0

    run(main)


def test_a_changed_secret_counts_from_the_next_send_on(run, keys, together):
    async def main(desk):
        await warm(desk)
        assert (await desk.ask(310, signed(sending(5), b"old", secret="old secret"), b"old")).code == 0
        keys.secrets[KEY] = [b"newest"]
        assert (await desk.ask(310, signed(sending(6), b"late"), b"late")).code == 16
        assert (await desk.ask(310, signed(sending(7), b"right", secret="newest"), b"right")).code == 0
        keys.secrets.clear()
        assert (await desk.ask(310, signed(sending(8), b"gone", secret="newest"), b"gone")).code == 16
        assert await stored(desk) == [b"old", b"right"]

    run(main)


def test_a_principal_without_a_valid_signature_is_not_kept_for_others(run, keys, together):
    """An authorizer may accept some requests unsigned; core must not take its answer for those that are signed."""
    keys.unsigned = True

    async def main(desk):
        for number in range(4):
            assert (await desk.ask(310, signed(sending(number), b"x", secret="wrong"), b"x")).code == 0
        assert keys.authenticated == [KEY] * 4
        assert together == []
        keys.unsigned = False
        assert (await desk.ask(310, signed(sending(5), b"x", secret="wrong"), b"x")).code == 16

    run(main)


def test_requests_without_an_access_key_have_nothing_to_check(run, keys, together):
    async def main(desk):
        for number in range(6):
            assert (await desk.ask(310, sending(number), b"body")).code == 0
        assert keys.authenticated == [""]
        assert len(together) >= 3

    run(main)


def test_an_authorizer_without_secrets_is_asked_for_each_request(run, keys, together):
    keys.secrets_of = None  # as if there were none

    async def main(desk):
        for number in range(5):
            assert (await desk.ask(310, signed(sending(number), b"body"), b"body")).code == 0
            assert (await desk.ask(310, sending(number), b"body")).code == 0
        assert keys.authenticated == [KEY, ""] * 5
        assert together == []

    run(main)


@pytest.mark.parametrize("secrets", ["a text", ["a text"], [b""], None, 5])
def test_secrets_that_are_none_are_an_error_of_the_plugin(run, keys, together, secrets):
    async def main(desk):
        await warm(desk)
        keys.secrets[KEY] = secrets
        answers = [await desk.ask(310, signed(sending(number), b"body"), b"body") for number in range(3)]
        assert {each.code for each in answers} == {1}
        assert sum(desk.tables.stats.plugin_errors.values()) >= 3
        assert await stored(desk) == []

    run(main)


def test_headers_in_any_form_are_checked(run, keys, together):
    """Unicode, escapes, another order of the fields, and the binary header."""

    async def main(desk):
        odd = 'KEYS\x01k 北 é \U0001f600 "\\/\x02'
        await warm(desk, properties=odd)
        for number in range(5, 9):
            ext = signed(sending(number, properties=odd), b"body")
            shuffled = dict(reversed(ext.items()))
            assert (await desk.ask(310, shuffled, b"body")).code == 0
            assert (await desk.ask(310, {**shuffled, "n": "\n"}, b"body")).code == 16
        connection = await desk.client.connect(ADDRESS)
        for secret, code in (("new secret", 0), ("wrong", 16), ("old secret", 0)):
            command = request(310, sending(9, properties=odd), b"body")
            command.serialize = SERIALIZE_BINARY
            Signer(Credentials(KEY, secret)).sign(command)
            assert (await connection.call(command, 3.0)).code == code
        assert len(await stored(desk)) == 6

    run(main)


def test_the_mark_of_queries_is_signed_by_new_clients_only(run, keys, together):
    async def main(desk):
        for version, code in ((399, 16), (400, 0), (513, 0)):
            for number in range(4):
                ext = signed({**sending(number), "_UNIQUE_KEY_QUERY": "true"}, b"body")
                assert (await desk.ask(310, ext, b"body", version=version)).code == code
        for number in range(4):
            ext = signed(sending(number), b"body") | {"_UNIQUE_KEY_QUERY": "true"}
            assert (await desk.ask(310, ext, b"body", version=399)).code == 0

    run(main)


@pytest.mark.parametrize("code", [10, 26, 34])
def test_other_requests_are_checked_as_well(run, keys, code):
    async def main(desk):
        body = dumps({"clientID": "c", "consumerDataSet": []}) if code == 34 else b"body" if code == 10 else None
        ext = send_header("A").to_ext() if code == 10 else {}
        for secret, expected in (("new secret", 0), ("wrong", 16), ("old secret", 0), ("wrong", 16)):
            assert (await desk.ask(code, signed(ext, body, secret=secret), body)).code == expected

    run(main)


def test_an_unknown_user_is_refused_between_sends_of_a_known_one(run, keys, together):
    async def main(desk):
        await warm(desk)
        asked = [
            desk.later(310, signed(sending(n), b"body", key=KEY if n % 2 else "stranger"), b"body") for n in range(6)
        ]
        assert [(await each).code for each in asked] == [16, 0] * 3

    run(main)
