"""Access control: who is identified, what is decided, what is cached, and where it is asked."""

from __future__ import annotations

import asyncio
import base64
import hmac
import re
from types import SimpleNamespace

import attrs
import pytest
from broker_desk import pull_ext, records, run_broker, send_header, topic_ext

from gantrymq.broker.access import AccessControl
from gantrymq.broker.wire.families import FAMILIES
from gantrymq.broker.wire.send import SendRequests
from gantrymq.broker.wire.transactions import TransactionRequests
from gantrymq.client.calls.credentials import Credentials
from gantrymq.errors import AccessRefused, NoPermission, PluginError, RequestRefused, ServiceNotAvailable
from gantrymq.hooks import hookimpl
from gantrymq.interfaces import PullRequest, SendRequest
from gantrymq.loose_json import dumps
from gantrymq.model.access import Action, Decision, Principal, group_resource, topic_resource
from gantrymq.plugins import load_plugins
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.serving import access_rule, handlers_of
from gantrymq.remoting.signatures import SignedRequest, Signer

SECRET = b"12345678"


class Book:
    """An authorizer whose rules are a set of what is refused; records what it is asked."""

    def __init__(self):
        self.refused, self.signed, self.decided = set(), [], []
        self.heard = []  # refusals that it was told
        self.later = None  # a future to wait for before an answer
        self.reason = ""  # of decisions
        self.refusal = None  # of everyone
        self.each_request = False

    async def start(self, broker):
        self.broker = broker

    async def stop(self):
        self.broker = None

    def authenticate(self, credentials, client):
        self.signed.append(credentials.access_key)
        if self.refusal is not None and self.later is None:
            raise self.refusal
        name = credentials.access_key or "anonymous"
        if credentials.access_key:
            expected = base64.b64encode(hmac.digest(SECRET, credentials.signed_content(), "sha1")).decode()
            if credentials.signature != expected:
                raise NoPermission(f"the signature of {name} is wrong")
        return Principal(name) if self.later is None else self._later(name)

    async def _later(self, name):
        await self.later
        if self.refusal is not None:
            raise self.refusal
        if name == "stranger":
            raise NoPermission("we never met")
        return Principal(name)

    def authorize(self, principal, actions, resource):
        self.decided.append((principal.name, " or ".join(each.value for each in actions), str(resource)))
        return Decision(any((each.value, str(resource)) not in self.refused for each in actions), self.reason)

    def on_refused(self, principal, actions, resource):
        self.heard.append((principal.name, [each.value for each in actions], str(resource)))


@pytest.fixture
def book():
    return Book()


@pytest.fixture
def run(plugins, book):
    """``run(main)`` runs ``await main(desk)`` against a broker with the authorizer and all plugins' handlers."""

    class Module:
        @hookimpl
        def gantry_register_authorizers(self, registry):
            def made(context):
                book.context = context
                return book

            registry.add("book", made)

    loaded = load_plugins(extra=[("book", Module())], installed=False)

    def run(main, **settings):
        return run_broker(
            attrs.evolve(plugins, authorizers=loaded.authorizers), main, **{"authorizer": "book", **settings}
        )

    return run


async def create(desk, name="A", **more):
    assert (await desk.ask(17, topic_ext(name, 1, **more))).code == 0


def denied(actions, resource):
    """The sentence of a refusal, which RocketMQ's clients show."""
    return f"User:anonymous has no permission to access {resource}: {actions} is not allowed"


def signed(ext, body=None, secret=SECRET, key="orders"):
    """The header fields of a request of a client with credentials."""
    command = request(310, dict(ext), body)
    Signer(Credentials(key, secret.decode())).sign(command)
    return command.ext


def test_a_reason_with_another_code_is_sent_as_it_is():
    class Old:
        def authenticate(self, credentials, client):
            return Principal("orders")

        def authorize(self, principal, actions, resource):
            return Decision(False, f"No default permission for {resource.name}", 1)

    access = AccessControl(Old(), "C", lambda *words: None)
    with pytest.raises(AccessRefused) as caught:
        access.check(Principal("orders"), Action.PUB, topic_resource("A"))
    assert (caught.value.response_code, str(caught.value)) == (1, "No default permission for A")
    consumer = SimpleNamespace(group="G", subscriptions=[SimpleNamespace(topic="A")])
    with pytest.raises(AccessRefused) as caught:
        access.check_heartbeat(SimpleNamespace(principal=Principal("orders"), consumers=[consumer]), None)
    assert caught.value.response_code == 1
    assert str(caught.value) == "No default permission for G; No default permission for A"


def test_every_request_states_what_it_needs():
    """Of core and of every installed plugin; a plugin's handler without a statement is for operators only."""
    stated = {}
    for family in (SendRequests, TransactionRequests, *FAMILIES):
        stated |= handlers_of(family)
    stated |= load_plugins().handlers
    assert len(stated) > 40  # without any plugin
    assert [code for code, handler in sorted(stated.items()) if access_rule(handler) is None] == []


def test_an_authorizer_gets_its_settings_and_runs_with_the_broker(run, book):
    async def main(desk):
        assert book.context.settings.text("authorizer") == "book"
        assert book.context.world.clock is desk.clock
        assert book.broker.access is desk.server.tables.access

    run(main)
    assert book.broker is None


def test_a_send_and_a_pull_are_checked_and_the_decisions_cached(run, book):
    async def main(desk):
        await create(desk)
        book.decided.clear()
        for _ in range(3):
            assert (await desk.send("A")).code == 0
            assert (await desk.pull("A", consumerGroup="G")).code == 0
        assert book.decided == [
            ("anonymous", "Pub", "Topic:A"),
            ("anonymous", "Sub", "Group:G"),
            ("anonymous", "Sub", "Topic:A"),
        ]
        assert book.signed == [""] * 3  # for each code: 17, 310 and 11
        book.refused |= {("Pub", "Topic:A"), ("Sub", "Topic:A")}
        assert (await desk.send("A")).code == 0  # still cached
        desk.access.forget()
        refused = await desk.send("A")
        assert (refused.code, refused.remark) == (
            16,
            "User:anonymous has no permission to access Topic:A: Pub is not allowed",
        )
        assert (await desk.pull("A", consumerGroup="G")).code == 16
        assert book.signed == [""] * 5

    run(with_access(main))


def with_access(main):
    """Give *main* a desk with the broker's access decisions."""

    async def with_it(desk):
        desk.access = desk.server.tables.access
        await main(desk)

    return with_it


def test_sends_that_are_alike_stay_together_with_signatures(run, book, monkeypatch):
    made = []

    async def main(desk):
        await create(desk)
        for number in range(8):
            body, header = b"body %d" % number, send_header("A", properties=f"UNIQ_KEY\x01ID{number}\x02").to_ext_v2()
            assert (await desk.ask(310, signed(header, body), body)).code == 0
        assert book.signed.count("orders") == 1
        assert len(made) >= 5  # all but the first ones went the short way
        book.refused.add(("Pub", "Topic:A"))
        desk.access.forget()
        body = b"refused"
        assert (await desk.ask(310, signed(send_header("A").to_ext_v2(), body), body)).code == 16

    from gantrymq.broker.wire import send_templates

    original = send_templates.SendTemplateCache.together

    def together(self, *given):
        found = original(self, *given)
        made.extend(found)
        return found

    monkeypatch.setattr(send_templates.SendTemplateCache, "together", together)
    run(with_access(main))


def test_a_template_of_one_client_is_not_used_for_another_that_did_not_sign(run, book):
    async def main(desk):
        await create(desk)
        header = send_header("A", properties="UNIQ_KEY\x01ID\x02").to_ext_v2()
        for _ in range(4):
            assert (await desk.ask(310, signed(header, b"body"), b"body")).code == 0
        other = desk.peer()
        forged = {**signed(header, b"body"), "Signature": "AAAA"}
        assert (await other.ask(310, forged, b"body")).code == 16

    run(main)


@pytest.mark.parametrize("each_request", [False, True])
def test_a_wrong_signature_is_refused_where_signatures_are_checked(run, book, each_request):
    book.each_request = each_request

    async def main(desk):
        await create(desk)
        header = send_header("A").to_ext_v2()
        assert (await desk.ask(310, signed(header, b"one"), b"one")).code == 0
        answers = [await desk.ask(310, signed(header, b"two"), b"changed") for _ in range(3)]
        assert {each.code for each in answers} == ({16} if each_request else {0})

    run(main)


def test_requests_wait_in_order_for_an_authentication_that_takes_time(run, book):
    async def main(desk):
        await create(desk)
        desk.access.forget()
        book.later = asyncio.get_running_loop().create_future()
        header = send_header("A").to_ext_v2()
        tasks = [asyncio.ensure_future(desk.ask(310, header, b"%d" % number)) for number in range(5)]
        await desk.clock.sleep(1)
        assert not any(task.done() for task in tasks)
        other = desk.peer()
        strange = asyncio.ensure_future(other.ask(310, signed(header, b"x", key="stranger"), b"x"))
        await desk.clock.sleep(1)
        book.later.set_result(None)
        assert [(await task).code for task in tasks] == [0] * 5
        answer = await strange
        sentence = "User:stranger has no permission to access Cluster:DefaultCluster: we never met"
        assert (answer.code, answer.remark) == (16, sentence)
        bodies = [bytes(each.body) for each in records(await desk.pull("A"))]
        assert bodies == [b"0", b"1", b"2", b"3", b"4"]

    run(with_access(main))


def test_a_client_that_leaves_while_it_is_identified_leaves_nothing(run, book):
    async def main(desk):
        await create(desk)
        desk.access.forget()
        book.later = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(desk.ask(28))
        await desk.clock.sleep(1)
        await desk.client.close()
        await desk.clock.sleep(1)
        book.later.set_result(None)
        await desk.clock.sleep(1)
        with pytest.raises(Exception, match="closed|lost"):
            await task

    run(with_access(main))


def test_an_authentication_that_never_ends_does_not_keep_the_broker_from_stopping(run, book):
    async def main(desk):
        await create(desk)
        desk.access.forget()
        book.later = asyncio.get_running_loop().create_future()
        waiting = asyncio.ensure_future(desk.ask(28))
        await desk.clock.sleep(1)
        assert not waiting.done()

    run(with_access(main))


def test_an_authorizer_that_raises_cancelled_error_is_answered(run, book):
    async def main(desk):
        await create(desk)
        desk.access.forget()
        book.later = asyncio.get_running_loop().create_future()
        book.later.cancel()
        assert (await desk.ask(28)).code == 1
        book.later = None
        assert (await desk.ask(28)).code == 0

    run(with_access(main))


@pytest.mark.parametrize(
    ("code", "ext", "body", "refused"),
    [
        (17, topic_ext("New", 1), None, ("Create", "Topic:New")),
        (18, {}, {"topicConfigList": [{"topicName": "X"}, {"topicName": "Y"}]}, ("Create", "Topic:Y")),
        (215, {"topic": "A"}, None, ("Delete", "Topic:A")),
        (200, {}, {"groupName": "G"}, ("Update", "Group:G")),
        (225, {}, {"groupConfigList": [{"groupName": "G"}]}, ("Update", "Group:G")),
        (207, {"groupName": "G"}, None, ("Delete", "Group:G")),
        (25, {}, None, ("Update", "Cluster:DefaultCluster")),
        (26, {}, None, ("Get", "Cluster:DefaultCluster")),
        (30, {"topic": "A", "queueId": "0"}, None, ("Get", "Topic:A")),
        (36, {"group": "G", "offset": "0", "delayLevel": "0"}, None, ("Sub", "Group:G")),
        (34, {}, {"clientID": "c", "consumerDataSet": [{"groupName": "G"}]}, ("Sub", "Group:G")),
        (35, {"clientID": "c", "consumerGroup": "G"}, None, ("Sub", "Group:G")),
        (41, {}, {"consumerGroup": "G", "clientId": "c", "mqSet": []}, ("Sub", "Group:G")),
        (
            41,
            {},
            {"consumerGroup": "G", "clientId": "c", "mqSet": [{"topic": "A", "brokerName": "b", "queueId": 0}]},
            ("Sub", "Topic:A"),
        ),
        (11, {"topic": "%RETRY%G", "consumerGroup": "G"}, None, ("Sub", "Group:G")),
    ],
)
def test_a_request_is_refused_for_the_resource_that_it_names(run, book, code, ext, body, refused):
    async def main(desk):
        await create(desk)
        assert (await desk.send("A")).code == 0
        book.refused.add(refused)
        if code == 11:
            answer = await desk.pull(ext["topic"], consumerGroup=ext["consumerGroup"])
        else:
            answer = await desk.ask(code, ext, None if body is None else dumps(body))
        assert (answer.code, answer.remark) == (
            16,
            denied(*refused),
        )

    run(main)


@pytest.mark.parametrize(
    ("code", "ext", "body", "refused"),
    [
        (310, send_header("A").to_ext_v2(), b"body", ("Pub", "Topic:A")),
        (11, pull_ext("A", consumerGroup="G"), None, ("Sub", "Topic:A")),
        (34, {}, {"clientID": "c", "consumerDataSet": [{"groupName": "G"}]}, ("Sub", "Group:G")),
        (36, {"group": "G", "offset": "0", "delayLevel": "0"}, None, ("Sub", "Topic:A")),
        (30, {"topic": "A", "queueId": "0"}, None, ("Get", "Topic:A")),
        (33, {"offset": "0"}, None, ("Get", "Topic:A")),
        (26, {}, None, ("Get", "Cluster:DefaultCluster")),
    ],
)
def test_a_refusal_has_the_words_that_clients_know_and_the_reason(run, book, code, ext, body, refused):
    async def main(desk):
        await create(desk)
        assert (await desk.send("A")).code == 0
        book.refused.add(refused)
        book.reason = "no entry for guests"
        desk.access.forget()
        answer = await desk.ask(code, ext, dumps(body) if isinstance(body, dict) else body)
        sentence = f"User:anonymous has no permission to access {refused[1]}: no entry for guests"
        assert (answer.code, answer.remark) == (16, sentence)
        book.reason = "User:anonymous has no permission to access anything from 127.0.0.1, no matched policies"
        desk.access.forget()
        assert (await desk.ask(code, ext, dumps(body) if isinstance(body, dict) else body)).remark == book.reason

    run(with_access(main))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(("key", "who"), [("", r"Client:[\w.:]+"), ("orders", "User:orders")])
@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (NoPermission("no entry"), 16, "{} has no permission to access Cluster:DefaultCluster: no entry"),
        (RequestRefused(16, "no entry"), 16, "{} has no permission to access Cluster:DefaultCluster: no entry"),
        (ServiceNotAvailable("the directory is down"), 14, "the directory is down"),
    ],
)
def test_so_has_a_refusal_of_a_client_that_is_not_identified(run, book, waits, key, who, error, code, sentence):
    async def main(desk):
        await create(desk)
        desk.access.forget()
        book.refusal = error
        if waits:
            book.later = asyncio.get_running_loop().create_future()
            book.later.set_result(None)
        answer = await desk.ask(310, signed(send_header("A").to_ext_v2(), b"x", key=key) if key else {}, b"x")
        assert answer.code == code
        assert re.match(sentence.format(who), answer.remark)

    run(with_access(main))


def test_the_authorizer_hears_of_each_refusal_also_of_a_cached_one(run, book):
    book.refused = {("Update", "Cluster:DefaultCluster")}

    async def main(desk):
        for _ in range(3):
            assert (await desk.ask(25, {}, b"x=1")).code == 16
        assert (await desk.ask(26)).code == 0

    run(main)
    assert book.heard == [("anonymous", ["Update"], "Cluster:DefaultCluster")] * 3
    assert [each for each in book.decided if each[1] == "Update"] == [("anonymous", "Update", "Cluster:DefaultCluster")]


def test_of_several_actions_one_is_enough(run, book):
    async def main(desk):
        await create(desk)
        fields = {"topic": "A", "consumerGroup": "G", "queueId": "0"}
        book.refused |= {("Sub", "Topic:A"), ("Sub", "Group:G")}
        assert (await desk.ask(14, fields)).code == 22  # no offset committed
        book.refused.add(("Get", "Topic:A"))
        desk.access.forget()
        answer = await desk.ask(14, fields)
        assert (answer.code, answer.remark) == (
            16,
            denied("Sub or Get", "Topic:A"),
        )

    run(with_access(main))


def test_a_view_is_checked_for_the_topic_of_the_message(run, book):
    async def main(desk):
        await create(desk)
        await desk.send("A")
        assert (await desk.ask(33, {"offset": "0"})).code == 0
        book.refused.add(("Get", "Topic:A"))
        desk.access.forget()
        assert (await desk.ask(33, {"offset": "0"})).code == 16

    run(with_access(main))


def test_what_an_authorizer_gets_wrong_is_counted_and_refused(run, book):
    async def main(desk):
        answer = await desk.ask(28)
        assert answer.code == 1
        failures = desk.server.tables.stats.plugin_errors
        assert failures[("authorizer", f"{__name__}.Book")] == 1

    book.authorize = lambda principal, actions, resource: True
    run(main)


def test_an_authorizer_that_is_not_installed_stops_the_start(run):
    with pytest.raises(PluginError, match=r"authorizer=other: .* \(there is book\)"):
        run(lambda desk: asyncio.sleep(0), authorizer="other")


def test_operations_check_the_principal_they_are_given(run, book):
    async def main(desk):
        await create(desk)
        messages = book.broker.messages
        book.refused |= {("Pub", "Topic:A"), ("Sub", "Group:G")}
        desk.access.forget()
        await messages.send(SendRequest("PG", "A", b"by the broker itself"))
        user = Principal("user")
        with pytest.raises(Exception, match="user has no permission to access Topic:A: Pub"):
            await messages.send(SendRequest("PG", "A", b"body", principal=user))
        with pytest.raises(Exception, match="user has no permission to access Group:G: Sub"):
            await messages.pull(PullRequest("G", "A", 0, 0, principal=user))

    run(with_access(main))


def test_decisions_are_bounded(monkeypatch, book):
    from gantrymq.broker import access

    monkeypatch.setattr(access, "MOST_DECISIONS", 4)
    control = access.AccessControl(book, "c", lambda kind, name: None)
    for number in range(20):
        control.check(Principal("p"), Action.PUB, topic_resource(f"T{number}"))
        assert len(control._decisions) <= 4


def test_a_code_that_is_admitted_without_a_signature_opens_nothing_for_other_codes(run, book):
    """As with a white list of request codes: the code is part of the keys of both caches."""

    def admitted(credentials, client):
        if credentials.request != 10:
            raise NoPermission("only sends are admitted")
        return Principal("guest", request=credentials.request)

    decided = []

    def authorize(principal, actions, resource):
        decided.append((principal.request, actions, str(resource)))
        return Decision(allowed=True)

    async def main(desk):
        for code in (10, 28, 310, 10, 28):
            answer = await desk.ask(code, send_header("TBW102").to_ext(), b"body")
            assert (answer.code == 16) == (code != 10), (code, answer.remark)
        assert decided == [(10, (Action.PUB,), "Topic:TBW102")]

    book.authenticate, book.authorize = admitted, authorize
    run(main)


def test_all_wanted_actions_are_decided_together(book):
    control = AccessControl(book, "c", lambda kind, name: None)
    control.check(Principal("p"), (Action.SUB, Action.GET), topic_resource("T"))
    control.check(Principal("p"), [Action.SUB, Action.GET], topic_resource("T"))
    assert book.decided == [("p", "Sub or Get", "Topic:T")]


def test_handlers_find_the_authorizer_of_their_broker(run, book):
    async def main(desk):
        assert book.broker.access.authorizer is book

    run(main)


def test_a_retry_topic_of_pops_counts_as_its_topic(book):
    control = AccessControl(book, "c", lambda kind, name: None)
    control.check_consumer(Principal("p"), "G", "%RETRY%G+A")
    control.check_consumer(Principal("p"), "G", "%RETRY%G_B")
    control.check_consumer(Principal("p"), "G", "%RETRY%Other")
    assert [each[1:] for each in book.decided] == [
        ("Sub", "Group:G"),
        ("Sub", "Topic:A"),
        ("Sub", "Topic:B"),
        ("Sub", "Group:Other"),
    ]
    assert topic_resource("%RETRY%G") == group_resource("G")


def test_the_signed_content_is_that_of_java():
    """Field values in the order of names, without the signature and, for old clients, without a mark of queries."""
    ext = {"b": "2", "AccessKey": "k", "Signature": "s", "_UNIQUE_KEY_QUERY": "u", "a": "1"}
    old, new = (Command(12, ext=dict(ext), version=version, body=b"body") for version in (399, 400))
    assert SignedRequest(old).signed_content() == b"k12body"
    assert SignedRequest(new).signed_content() == b"ku12body"
    assert SignedRequest(SimpleNamespace(code=10, ext=None, payload=b"", version=1)).access_key == ""


def test_names_of_any_length_take_no_memory():
    """A client chooses the names of topics, and, where a request needs no signature, of users."""

    class Guests:
        def authenticate(self, credentials, client):
            return Principal(credentials.access_key)

        def authorize(self, principal, actions, resource):
            return Decision(allowed=True)

    control, client = AccessControl(Guests(), "c", lambda kind, name: None), SimpleNamespace(notes={}, listener="")
    long = "n" * 10_000
    for key, topic in ((long, "T"), ("guest", long), ("guest", "T")):
        principal = control.identify(SimpleNamespace(access_key=key, request=10), client)
        control.check(principal, Action.PUB, topic_resource(topic))
    assert [(each[0].name, each[2].name) for each in control._decisions] == [("guest", "T")]
    assert [key for key, _ in client.notes["access"].principals] == ["guest"]
