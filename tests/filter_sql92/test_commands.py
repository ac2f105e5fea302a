"""`gantrymq filter explain` and `gantrymq filter test`."""

import asyncio
import json
from importlib.util import find_spec

import pytest
from click.testing import CliRunner

from gantrymq.cli import main
from gantrymq.client import Client
from gantrymq.client.message import Message
from gantrymq.errors import BrokerRefused

needs_a_store = pytest.mark.skipif(find_spec("gantrymq_storage_memory") is None, reason="needs gantrymq-storage-memory")


def run(*words, code=0):
    """The command's stdout and stderr."""
    done = CliRunner().invoke(main, ["filter", *words])
    assert done.exit_code == code, done.output
    return done.stdout, done.stderr


def test_explain_shows_the_tree_and_what_it_needs():
    out, errors = run(
        "explain", "price > 10 and (region in ('n','s') or not vip) and x not contains 'y' and z is not null"
    )
    assert out.splitlines() == [
        "price > 10 AND (region IN ('n', 's') OR NOT vip) AND x NOT CONTAINS 'y' AND z IS NOT NULL",
        "  AND",
        "    >",
        "      property price",
        "      integer 10",
        "    OR",
        "      IN ('n', 's')",
        "        property region",
        "      NOT",
        "        condition vip (unknown without the property, otherwise false)",
        "          property vip",
        "    NOT CONTAINS 'y'",
        "      property x",
        "    IS NOT NULL",
        "      property z",
        "needs price, region, vip, x, z",
        "block filters cannot be used: they need = or IN with at most 32 values of one property",
    ]
    assert errors == ""


def test_explain_says_what_each_part_is_for_a_message():
    out, _ = run(
        "explain", "a BETWEEN -1 AND 3000000000 OR b = 1.5 OR c = 'it''s' OR d = TRUE", "-p", "a=5", "-p", "b=x"
    )
    assert out.splitlines()[1:] == [
        "  OR: true",
        "    BETWEEN: true",
        "      property a: '5'",
        "      minus: -1",
        "        integer 1",
        "      long 3000000000",
        "    =: fails: 'x' is not a number",
        "      property b: 'x'",
        "      double 1.5",
        "    =: unknown",
        "      property c: unknown",
        "      text 'it''s'",
        "    =: unknown",
        "      property d: unknown",
        "      TRUE",
        "needs a, b, c, d",
        "block filters cannot be used: they need = or IN with at most 32 values of one property",
        "true: a consumer gets the message",
    ]


def test_explain_for_scripts():
    out, errors = run("explain", "a LIKE 'x%'", "-p", "a=x", "--output", "json")
    assert json.loads(out) == {
        "expression": "a LIKE 'x%'",
        "read_as": "a",
        "not_read": "LIKE 'x%'",
        "needs": ["a"],
        "block_filter": None,
        "tree": ["condition a (unknown without the property, otherwise false): false", "  property a: 'x'"],
        "answer": "false",
        "matches": False,
    }
    assert errors == "warning: character 3: the condition ends here; \"LIKE 'x%'\" is not looked at\n"


def test_explain_says_whether_block_filters_can_be_used():
    out, _ = run("explain", "tenant = 't7' AND price > 10")
    assert out.splitlines()[-2:] == ["needs price, tenant", "block filters can be used, by property tenant"]
    out, _ = run("explain", "tenant IN ('t7', 't8')", "--output", "json")
    assert json.loads(out)["block_filter"] == "tenant"


def test_a_wrong_expression_is_drawn_with_the_place():
    out, errors = run("explain", "a = 1 AND\nb >\t= 4", code=1)
    assert out == ""
    assert errors.splitlines()[:2] == ["b > = 4", "    ^"]
    assert errors.splitlines()[2].startswith("gantrymq: SQL92 expression, character 15: found '=', expected a property")


@pytest.mark.parametrize(
    ("words", "said", "code"),
    [
        (["a > 1", "-p", "a=2"], "true: a consumer gets the message", 0),
        (["a > 1", "-p", "a=1"], "false: a consumer does not get the message", 1),
        (["a > 1"], "unknown: a consumer does not get the message", 1),
        (["a > 1", "-p", "a=x"], "fails: 'x' is not a whole number of 32 bits: a consumer does not get the message", 1),
        (["a IS NULL"], "true: a consumer gets the message", 0),
        (["a = 'b=c'", "-p", "a=b=c"], "true: a consumer gets the message", 0),
    ],
)
def test_a_message_is_tried(words, said, code):
    assert run("test", *words, code=code)[0] == said + "\n"


def test_wrong_words_are_wrong_usage():
    assert "is not NAME=VALUE" in run("test", "a", "-p", "a", code=2)[1]
    assert "give -p or -t, not both" in run("test", "a", "-p", "a=1", "-t", "T", code=2)[1]


@pytest.fixture
def server(gantrymq_broker_factory):
    """A broker with ten messages of a topic of two queues; their property n counts."""
    server = gantrymq_broker_factory({"store": "memory"})
    server.create_topic("T", 2)

    async def send():
        async with Client(server.namesrv) as client, client.producer("PG") as producer:
            queues = await producer.queues("T")
            for n in range(10):
                await producer.send(Message("T", b"x", properties={"n": str(n)}), queue=queues[n % 2])

    asyncio.run(send())
    return server


@needs_a_store
def test_the_newest_messages_of_a_topic_are_tried(server):
    out, _ = run("test", "n > 5", "-t", "T", "--max", "6", "-n", server.namesrv, "--output", "json")
    document = json.loads(out)
    assert (document["tried"], document["taken"], document["needs"]) == (6, 4, ["n"])
    assert sorted((each["queue"], each["queue_offset"], each["matches"]) for each in document["messages"]) == [
        (0, 2, False),
        (0, 3, True),
        (0, 4, True),
        (1, 2, False),
        (1, 3, True),
        (1, 4, True),
    ]
    out, _ = run("test", "n > 5", "-t", "T", "-n", server.namesrv)
    assert out.endswith("takes 4 of 10 messages of T\n")
    assert "takes 0 of 10" in run("test", "n > 9", "-t", "T", "-n", server.namesrv, code=1)[0]
    server.create_topic("Empty", 1)
    assert "takes 0 of 0" in run("test", "n > 9", "-t", "Empty", "-n", server.namesrv, code=1)[0]


@needs_a_store
def test_a_pull_gets_what_the_expression_takes(server):
    async def work():
        async with Client(server.namesrv) as client, client.reader(group="CG") as consumer:
            got = []
            for queue in await consumer.queues("T"):
                result = await consumer.pull(queue, 0, expression="n BETWEEN 3 AND 6", expression_type="SQL92")
                got += [message.properties["n"] for message in result.messages]
            with pytest.raises(BrokerRefused) as refusal:
                await consumer.pull(queue, 0, expression="n >", expression_type="SQL92")
            return sorted(got), refusal.value

    got, refusal = asyncio.run(work())
    assert got == ["3", "4", "5", "6"]
    assert refusal.response_code == 23
    assert "SQL92 expression, character 4: found the end, expected" in str(refusal)
