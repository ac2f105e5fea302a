"""`group dlq` against a name server and a broker of this process."""

import asyncio
import json
from contextlib import suppress
from importlib.util import find_spec

import attrs
import pytest
from click.testing import CliRunner
from polling import until

from gantrymq.broker.server import BrokerServer
from gantrymq.broker.settings import SCHEMA
from gantrymq.cli import main
from gantrymq.client import Admin, Client, Producer
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused, CallTimeout, ClientError, NoRoute
from gantrymq.formats.record import iter_records
from gantrymq.interfaces import StoreMessage
from gantrymq.loose_json import dumps
from gantrymq.model.queue import Queue
from gantrymq.model.topic import TopicConfig
from gantrymq.plugins import load_plugins
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import request
from gantrymq.remoting.headers.send import ConsumerSendMsgBackRequest
from gantrymq.world.real import RealClock
from gantrymq_admin import resending
from gantrymq_admin.dead_letters import dead_queues
from gantrymq_admin.resend_lock import ResendLock
from gantrymq_admin.resent import SoughtLetter
from gantrymq_testing.cluster import broker_settings

pytestmark = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")

OWN = {"city": "Köln", "__SHARDINGKEY": "7"}


@pytest.fixture
def server(gantrymq_broker_factory):
    running = gantrymq_broker_factory({"store": "memory"})
    running.create_topic("T", 1)
    return running


@pytest.fixture
def command(server):
    """Run ``group dlq CG ...`` with ``--output json``; returns its document, or what it wrote on stderr."""

    def run(verb, *words, code=0, group="CG"):
        done = CliRunner().invoke(main, ["group", "dlq", verb, group, *words, "-n", server.namesrv, "--output", "json"])
        assert done.exit_code == code, done.output
        return json.loads(done.stdout) if code == 0 else done.stderr

    return run


@pytest.fixture
def dead(server):
    """``dead(count)`` makes dead letters of group CG, the first with body ``b0``."""

    def make(count, group="CG", failure=None):
        async def work():
            sent = []
            async with server.producer() as producer:
                for number in range(count):
                    message = Message("T", b"b%d" % number, "Tag", f"all k{number}", 7, dict(OWN))
                    sent.append(await producer.send(message))
            async with Client(server.namesrv) as client, client.admin as admin:
                body = dumps({"clientID": "c1", "consumerDataSet": [{"groupName": group}]})
                await admin.request(server.broker_address, RequestCode.HEART_BEAT, body=body)
                for each in sent:
                    back = ConsumerSendMsgBackRequest(
                        offset=int(each.offset_id[16:], 16),
                        group=group,
                        delay_level=-1,
                        origin_topic="T",
                        failure=failure,
                    )
                    await admin.request(server.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)
                await admin.route(f"%DLQ%{group}")  # the name server knows it
            return [each.message_id for each in sent]

        return server.run(work())

    return make


def lock(server, group):
    """Let a client of the group hold a queue, as one that consumes in order does."""

    async def work():
        async with Client(server.namesrv) as client, client.admin as admin:
            queue = {"topic": "T", "brokerName": "broker-a", "queueId": 0}
            body = dumps({"consumerGroup": group, "clientId": "c1", "mqSet": [queue]})
            await admin.request(server.broker_address, RequestCode.LOCK_BATCH_MQ, body=body)

    server.run(work())


def test_letters_are_counted_and_the_oldest_listed_with_their_reason(command, dead):
    ids = dead(5)
    found = command("list", "--max", "2")
    assert (found["group"], found["topic"], found["dead_letters"]) == ("CG", "%DLQ%CG", 5)
    (queue,) = found["queues"]
    assert (queue["min_offset"], queue["max_offset"], queue["dead_letters"]) == (0, 5, 5)
    assert [each["message_id"] for each in found["letters"]] == ids[:2]
    first = found["letters"][0]
    assert (first["reconsume_times"], first["origin_topic"], first["keys"]) == (1, "T", "all k0")
    assert first["why"] == "failed 1 time and was sent back"
    assert len(first["origin_message_id"]) == 32
    assert [each["queue_offset"] for each in command("list", "--from-offset", "3")["letters"]] == [3, 4]
    assert command("list", "--max", "0")["letters"] == []


def test_the_exception_of_the_consumer_is_shown_and_not_sent_again(server, command, dead):
    dead(1, failure="ValueError: no amount")
    (letter,) = command("list")["letters"]
    assert letter["why"] == "failed 1 time and was sent back; ValueError: no amount"
    command("resend", "0", "--to", "topic")
    sent = [message for message in server.pull("T") if "DLQ_RESENT_FROM" in message.properties]
    assert [message.properties.get("CONSUME_FAILURE") for message in sent] == [None]


def test_lines_for_people(server, dead):
    dead(2)
    done = CliRunner().invoke(main, ["group", "dlq", "list", "CG", "-n", server.namesrv])
    assert "group CG has 2 dead letters, 2 of them listed" in done.stdout
    assert "all k1" in done.stdout
    done = CliRunner().invoke(main, ["group", "dlq", "show", "CG", "1", "-n", server.namesrv])
    assert "failed 1 time and was sent back" in done.stdout
    assert "b1" in done.stdout


def test_one_letter_is_shown_whole(command, dead):
    ids = dead(2)
    found = command("show", "1")
    assert (found["message_id"], found["body"], found["origin_topic"]) == (ids[1], "b1", "T")
    assert found["properties"]["city"] == "Köln"
    broker = found["broker"]
    assert command("show", f"{broker}:0")["body"] == "b0"
    assert f"group CG has no dead letter 2; there are {broker} 0 to 1" in command("show", "2", code=1)
    assert "is neither OFFSET nor BROKER:OFFSET" in command("show", "x", code=2)


def test_a_group_without_dead_letters_and_an_unknown_group(server, command):
    server.call(server.broker.topics.put, TopicConfig("%RETRY%CG", 1, 1))
    server.run(_until_routed(server, "%RETRY%CG"))
    assert command("list")["dead_letters"] == 0
    assert command("resend", "--all")["resent"] == 0
    assert "no broker has dead letters of a group Nobody" in command("list", code=1, group="Nobody")


async def _until_routed(server, topic):
    async with server.consumer() as consumer:

        async def queues():
            with suppress(NoRoute):
                return await consumer.queues(topic)

        return await until(queues, f"route of {topic}")


def test_a_topic_that_may_not_be_read_is_named_with_what_opens_it(server, command, dead):
    dead(1)
    server.call(server.broker.topics.put, TopicConfig("%DLQ%CG", 1, 1, 2))
    said = command("list", code=1)
    assert "topic %DLQ%CG is for writing only" in said
    assert "gantrymq topic create -t %DLQ%CG -r 1 -w 1 --perm 6" in said


@pytest.mark.parametrize(("options", "topic"), [((), "%RETRY%CG"), (("--to", "topic"), "T")])
def test_what_is_sent_again_is_as_it_was_but_for_its_failures(server, command, dead, options, topic):
    ids = dead(3)
    before = len(server.pull("T"))
    tried = command("resend", "--all", "--dry-run", *options)
    assert (tried["dry_run"], tried["resent"], tried["by_topic"]) == (True, 3, {topic: 3})
    assert len(server.pull("T")) == before
    done = command("resend", "--all", *options)
    assert (done["resent"], done["left_out"], done["by_topic"]) == (3, 0, {topic: 3})
    assert list(done["next_offset"].values()) == [3]
    found = server.pull(topic)[-3:]
    assert sorted(each.message_id for each in found) == sorted(ids)
    for each in found:
        assert each.body == b"b%d" % ids.index(each.message_id)
        assert (each.tags, each.flag, each.reconsume_times) == ("Tag", 7, 0)
        assert each.keys == f"all k{ids.index(each.message_id)}"
        assert {name: each.properties[name] for name in OWN} == OWN
        assert each.properties["RETRY_TOPIC"] == "T"
        assert not {"DELAY", "REAL_TOPIC", "RECONSUME_TIME"} & each.properties.keys()
    assert command("list")["dead_letters"] == 3  # they stay


def pop_letters(server, *marks):
    """Dead letters of group CG that were popped from T and failed again, one for each form of the retry topic."""

    async def fill():
        kept = [StoreMessage("%DLQ%CG", 0, b"p", b"RETRY_TOPIC\x01%%RETRY%%CG%sT\x02" % mark) for mark in marks]
        await server.broker.messages.put_all(kept)

    server.run(fill())


def test_letters_of_a_group_that_pops_go_where_its_pops_read(server, command, dead):
    dead(1)
    server.create_topic("%RETRY%CG_T", 1)
    pop_letters(server, b"_", b"+")
    assert [each["origin_topic"] for each in command("list")["letters"]] == ["T", "T", "T"]
    done = command("resend", "--all")
    assert (done["resent"], done["by_topic"]) == (3, {"%RETRY%CG_T": 3})
    assert sorted(each.body for each in server.pull("%RETRY%CG_T")) == [b"b0", b"p", b"p"]
    assert command("resend", "--all", "--again", "--dry-run", "--to", "topic")["by_topic"] == {"T": 3}
    assert command("resend", "--all", "--again", "--dry-run", "--to", "retry")["by_topic"] == {"%RETRY%CG": 3}


def test_a_popped_letter_that_no_topic_takes_is_left_out_with_the_reason(server, command, dead):
    dead(1)
    pop_letters(server, b"+")
    said = command("resend", "--all", code=1)
    assert "was popped, and no name server knows %RETRY%CG_T" in said
    assert "send it with --to topic" in said
    assert command("resend", "1", "--to", "topic")["by_topic"] == {"T": 1}


def test_what_is_sent_again_to_a_group_that_pops_is_popped(gantrymq_broker_factory):
    pytest.importorskip("gantrymq_pop")
    server = gantrymq_broker_factory({"store": "memory"})
    for topic in ("T", "%RETRY%CG_T", "%DLQ%CG"):
        server.create_topic(topic, 1)
    pop_letters(server, b"_")
    words = ["group", "dlq", "resend", "CG", "--all", "-n", server.namesrv]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert [each.body for each in server.run(popped(server))] == [b"p"]


async def popped(server):
    """What a pop of group CG gets of T."""
    ext = {"consumerGroup": "CG", "topic": "T", "queueId": "-1", "maxMsgNums": "8", "invisibleTime": "60000"}
    ext |= {"pollTime": "0", "bornTime": "0", "initMode": "0", "exp": "*", "expType": "TAG"}
    client = RemotingClient(server.cluster.world)
    try:
        connection = await client.connect(server.broker_address)
        answer = await connection.call(request(RequestCode.POP_MESSAGE, ext), 10.0)
        return list(iter_records(answer.payload))
    finally:
        await client.close()


def test_some_letters_by_offset_and_by_range(server, command, dead):
    ids = dead(6)
    assert command("resend", "4", "1")["resent"] == 2
    assert [each.message_id for each in server.pull("%RETRY%CG")] == [ids[4], ids[1]]
    done = command("resend", "--from-offset", "2", "--max", "2")
    assert (done["resent"], list(done["next_offset"].values())) == (2, [4])
    assert {each.message_id for each in server.pull("%RETRY%CG")} == {ids[number] for number in (1, 2, 3, 4)}
    assert "specify the dead letters" in command("resend", code=2)
    assert "specify the dead letters" in command("resend", "1", "--all", code=2)
    assert "broker x has no dead letters of group CG" in command("resend", "--all", "--broker", "x", code=1)


def sent_count(server, topic="%RETRY%CG"):
    return server.call(server.broker.store.bounds, Queue(topic, 0)).max_offset


def test_nothing_is_sent_if_a_named_letter_does_not_exist(server, command, dead):
    dead(2)
    said = command("resend", "0", "1", "7", "9", code=1)
    assert "group CG has no dead letter 7, 9; there are broker-a 0 to 1" in said
    assert sent_count(server) == 0
    done = command("resend", "0", "1", "0")
    assert [(each["place"], each["result"], each["topic"]) for each in done["letters"]] == [
        ("broker-a:0", "sent", "%RETRY%CG"),
        ("broker-a:1", "sent", "%RETRY%CG"),
    ]
    assert sent_count(server) == 2


@pytest.mark.parametrize("target", ["group", "topic"])
def test_what_was_sent_again_is_left_out_and_shown(server, command, dead, target):
    dead(3)
    assert command("resend", "1", "--to", target)["resent"] == 1
    done = command("resend", "--all", "--to", "topic")
    assert (done["resent"], done["sent_before"], done["left_out"]) == (2, 1, 0)
    done = command("resend", "--all", "--max", "2")
    assert (done["resent"], done["sent_before"]) == (0, 3)
    assert [each["result"] for each in command("resend", "0", "2", "--dry-run")["letters"]] == ["sent before"] * 2
    times = [each["sent_again_ms"] for each in command("list")["letters"]]
    assert None not in times and command("show", "0")["sent_again_ms"] == times[0]
    assert command("resend", "1", "--again")["resent"] == 1
    text = CliRunner().invoke(main, ["group", "dlq", "resend", "CG", "--all", "-n", server.namesrv])
    assert "0 dead letters of group CG were sent again; 3 were before, and are not sent without --again" in text.stdout
    assert text.exit_code == 0


def test_a_copy_of_a_broker_whose_clock_is_behind_is_found(server, command, dead, monkeypatch):
    dead(2)
    real = SoughtLetter.of

    def of(letter, group):
        found = real(letter, group)
        return attrs.evolve(found, since_ms=found.since_ms + 600_000)

    monkeypatch.setattr(SoughtLetter, "of", staticmethod(of))
    assert command("resend", "0")["resent"] == 1
    done = command("resend", "--all")
    assert (done["resent"], done["sent_before"]) == (1, 1)


def test_nothing_is_sent_if_one_of_several_brokers_cannot_search(server, command, dead, monkeypatch):
    """Another broker finds messages with the same id, such as the original: that does not stand for the silent one."""
    dead(1)
    real = Admin.route

    async def route(self, topic):
        found = await real(self, topic)
        if topic != "T":
            return found
        silent = attrs.evolve(found.brokers[0], name="broker-w", addresses={0: "127.0.0.1:1"})
        return attrs.evolve(found, brokers=(*found.brokers, silent))

    monkeypatch.setattr(Admin, "route", route)
    assert "it is not known which dead letters were sent again before" in command("resend", "--all", code=1)
    assert sent_count(server) == 0


def test_a_retry_of_a_copy_is_not_another_copy(server, command, dead):
    dead(1)
    assert command("resend", "--all")["resent"] == 1
    (sent,) = server.pull("%RETRY%CG")

    async def fail():
        properties = "".join(f"{name}\x01{value}\x02" for name, value in sent.properties.items()).encode()
        retried = StoreMessage("%RETRY%CG", 0, sent.body, properties, reconsume_times=1)
        await server.broker.messages.put_all([retried])

    server.run(fail())
    assert len(server.pull("%RETRY%CG")) == 2
    (copy,) = command("show", "0")["copies"]
    assert copy["offset_id"] == sent.offset_id


def test_the_maximum_counts_only_letters_that_were_not_sent_before(command, dead):
    dead(5)
    assert command("resend", "0", "1")["resent"] == 2
    for most, resent, at in (("2", 2, 4), ("2", 1, 5)):
        done = command("resend", "--from-offset", "0", "--max", most)
        assert (done["resent"], done["next_offset"]) == (resent, {"broker-a": at})


def test_a_letter_that_died_again_is_another_letter(server, command, dead):
    dead(1)
    assert command("resend", "--all")["resent"] == 1

    async def die_again():
        (copy,) = await server.cluster.pull("%RETRY%CG")
        async with Client(server.namesrv) as client, client.admin as admin:
            back = ConsumerSendMsgBackRequest(
                offset=copy.log_offset, group="CG", delay_level=-1, origin_topic="%RETRY%CG"
            )
            await admin.request(server.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)

    server.run(die_again())
    first, second = command("list")["letters"]
    assert first["message_id"] == second["message_id"]
    assert first["sent_again_ms"] is not None and second["sent_again_ms"] is None
    done = command("resend", "--all")
    assert (done["resent"], done["sent_before"]) == (1, 1)
    (last,) = [each for each in server.pull("%RETRY%CG") if " " in each.properties["DLQ_RESENT_FROM"]]
    assert last.properties["DLQ_RESENT_FROM"] == "broker-a:0 broker-a:1"
    assert command("resend", "--all")["sent_before"] == 2


@pytest.mark.parametrize("bad", [(1, 3), (0, 2)])
def test_each_letter_that_fails_is_reported_and_a_repetition_sends_the_rest(server, command, dead, monkeypatch, bad):
    dead(4)
    real, failing = Producer.send, {b"b%d" % each for each in bad}

    async def send(self, message, *queue):
        if message.body in failing:
            raise ClientError("the broker is busy")
        return await real(self, message, *queue)

    monkeypatch.setattr(Producer, "send", send)
    words = ["group", "dlq", "resend", "CG", "0", "1", "2", "3", "-n", server.namesrv, "--output", "json"]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 1 and "2 dead letters of group CG could not be sent again" in done.stderr
    letters = json.loads(done.stdout.splitlines()[0])["letters"]
    assert [(each["place"], each["result"], each["reason"]) for each in letters] == [
        (f"broker-a:{each}", *(("failed", "the broker is busy") if each in bad else ("sent", ""))) for each in range(4)
    ]
    failing.clear()
    done = command("resend", "--all")
    assert (done["resent"], done["sent_before"], done["failed"]) == (2, 2, 0)
    assert sent_count(server) == 4


def test_nothing_is_sent_while_it_is_not_known_what_was_sent_before(server, command, dead, monkeypatch):
    dead(1)

    async def query_unique(self, *words, **options):
        raise BrokerRefused(2, "the index is not up to date", server.broker_address)

    monkeypatch.setattr(Admin, "query_unique", query_unique)
    assert "it is not known which dead letters were sent again before" in command("resend", "--all", code=1)
    assert sent_count(server) == 0
    (letter,) = command("list")["letters"]
    assert "sent_again_ms" not in letter
    assert command("resend", "--all", "--again")["resent"] == 1


def test_a_group_that_consumes_in_order_is_noticed_after_one_letter(server, command, dead):
    dead(4)
    lock(server, "CG")
    said = command("resend", "--all", code=1)
    assert "group CG consumes in order" in said
    assert command("list")["dead_letters"] == 5
    assert command("resend", "--from-offset", "0", "--max", "4", "--to", "topic")["resent"] == 4


def test_a_dead_letter_of_an_unknown_topic_is_left_out(server, command, dead):
    dead(1)
    server.send("%DLQ%CG", b"put here by hand")
    done = CliRunner().invoke(main, ["group", "dlq", "resend", "CG", "--all", "--to", "topic", "-n", server.namesrv])
    assert done.exit_code == 1
    assert "does not contain its topic" in done.stderr
    assert "1 dead letters of group CG were sent again; 1 to T; 1 left out" in done.stdout


def test_a_group_that_no_broker_keeps_retries_for(server, command, dead):
    dead(1)

    async def forget():
        async with Client(server.namesrv) as client, client.admin as admin:
            await admin.delete_topic("%RETRY%CG")

    server.run(forget())
    said = command("resend", "--all", code=1)
    assert "nothing was sent again: no name server knows %RETRY%CG" in said
    assert "a consumer of the group makes it when it starts" in said


def test_many_letters_are_read_page_by_page(server, command, dead):
    dead(1, group="CG")

    async def fill():
        letters = [StoreMessage("%DLQ%CG", 0, b"x", b"RETRY_TOPIC\x01T\x02") for _ in range(2000)]
        await server.broker.messages.put_all(letters)

    server.run(fill())
    assert command("resend", "--all", "--dry-run")["resent"] == 2001
    assert command("resend", "--all", "--max", "1500")["resent"] == 1500
    assert server.call(server.broker.store.bounds, Queue("%RETRY%CG", 0)).max_offset == 1500
    assert len(server.pull("%RETRY%CG")) == 1500


def test_a_copy_says_who_sent_it_for_which_group(server, command, dead):
    dead(1)
    command("resend", "--all")
    (copy,) = command("show", "0")["copies"]
    assert (copy["topic"], copy["by"]) == ("%RETRY%CG", "gantrymq group dlq resend")
    (stored,) = server.pull("%RETRY%CG")
    assert (copy["offset_id"], stored.properties["DLQ_RESENT_GROUP"]) == (stored.offset_id, "CG")
    lines = CliRunner().invoke(main, ["group", "dlq", "show", "CG", "0", "-n", server.namesrv]).stdout
    assert "by gantrymq group dlq resend to %RETRY%CG" in lines


def test_letters_of_two_groups_at_the_same_place_are_told_apart(server, command, dead):
    dead(1)

    async def die_for_another_group():
        (first,) = await server.cluster.pull("T")
        async with Client(server.namesrv) as client, client.admin as admin:
            heartbeat = dumps({"clientID": "c2", "consumerDataSet": [{"groupName": "OTHER"}]})
            await admin.request(server.broker_address, RequestCode.HEART_BEAT, body=heartbeat)
            back = ConsumerSendMsgBackRequest(offset=first.log_offset, group="OTHER", delay_level=-1, origin_topic="T")
            await admin.request(server.broker_address, RequestCode.CONSUMER_SEND_MSG_BACK, back)

    server.run(die_for_another_group())
    assert command("resend", "--all", "--to", "topic")["resent"] == 1
    assert command("list")["letters"][0]["sent_again_ms"] is not None
    assert command("list", group="OTHER")["letters"][0]["sent_again_ms"] is None


def test_a_second_run_waits_until_the_first_has_ended(server, command, dead):
    dead(2)

    async def lock(work):
        async with Client(server.namesrv) as client, client.admin as admin, client.reader(group="TOOLS_CONSUMER") as r:
            lock = ResendLock(admin, RealClock(), "CG")
            await lock.take([each.queue for each in await dead_queues(r, "CG")])
            try:
                return await asyncio.to_thread(work)
            finally:
                await lock.release()

    refused = server.run(lock(lambda: command("resend", "--all", code=1)))
    assert "being sent again by another command or console" in refused
    assert server.run(lock(lambda: command("resend", "--all", "--dry-run")))["resent"] == 2  # sends nothing
    assert command("resend", "--all")["resent"] == 2


def test_a_broker_that_refuses_locks_does_not_stop_the_run(command, dead, monkeypatch):
    dead(1)
    real = Admin.request

    async def request(self, address, code, *words, **options):
        if code == RequestCode.LOCK_BATCH_MQ:
            raise BrokerRefused(16, "no permission", address)
        return await real(self, address, code, *words, **options)

    monkeypatch.setattr(Admin, "request", request)
    assert command("resend", "--all")["resent"] == 1


@pytest.mark.parametrize("stored", [True, False])
def test_a_send_without_an_answer_is_looked_for(server, command, dead, monkeypatch, stored):
    dead(3)
    monkeypatch.setattr(resending, "_FOUND_S", 0.5)
    real = Producer.send

    async def send(self, message, *queue):
        if message.body == b"b1":
            if stored:
                await real(self, message, *queue)
            raise CallTimeout("no answer")
        return await real(self, message, *queue)

    monkeypatch.setattr(Producer, "send", send)
    if stored:
        assert command("resend", "--all")["resent"] == 3
    else:
        told = command("resend", "--all", code=1)
        assert "broker-a:1 unknown: it may have been sent again" in told and "not known whether 1 dead letters" in told
    assert len(server.pull("%RETRY%CG")) == (3 if stored else 2)


@pytest.fixture
def another(server, tmp_path):
    """A second broker of the cluster."""
    cluster, plugins = server.cluster, load_plugins("", reserved=SCHEMA)  # services are of one broker
    given = {"brokerName": "another", "namesrvAddr": cluster.namesrv, "store": "memory"}
    found = BrokerServer(cluster.world, broker_settings(plugins, tmp_path / "another", given), plugins)
    server.run(found.start())
    yield found
    server.run(found.stop())


@pytest.mark.parametrize("target", ["group", "topic"])
def test_copies_are_stored_beside_their_letters_and_elsewhere_if_need_be(server, command, dead, another, target):
    """A broker that is gone from the name servers is unknown to the next run, which would send its copies again."""
    topic, queues = "%RETRY%CG" if target == "group" else "T", 8
    dead(6)
    server.call(another.tables.topics.put, TopicConfig(topic, queues, queues))
    server.run(_until_at(server, topic, {"broker-a", "another"}))

    def copies_elsewhere():
        return sum(server.call(another.store.bounds, Queue(topic, each)).max_offset for each in range(queues))

    assert command("resend", "0", "1", "2", "3", "--to", target)["resent"] == 4
    assert copies_elsewhere() == 0
    server.run(_make_readonly(server, topic))  # as at a broker that is to be closed
    server.run(_until_at(server, topic, {"another"}))
    assert command("resend", "--all", "--to", target)["resent"] == 2
    assert copies_elsewhere() == 2


async def _make_readonly(server, topic):
    async with Client(server.namesrv) as client, client.admin as admin:
        await admin.create_topic(server.broker_address, TopicConfig(topic, 1, 1, 4))


async def _until_at(server, topic, brokers):
    """Wait until clients may send to *topic* at these brokers."""
    async with Client(server.namesrv) as client, client.admin as admin:

        async def there():
            with suppress(NoRoute):
                found = (await admin.route(topic)).publish_queues(topic)
                return {each.broker_name for each in found} == brokers

        await until(there, f"{topic} at {brokers}")
