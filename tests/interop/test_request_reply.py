"""Features of official clients around messages: requests and replies, traces, namespaces, compressed bodies."""

from pathlib import Path

import pytest
from harness import Driver, GantryServer, MqAdmin, create_topic
from polling import wait_until

pytestmark = pytest.mark.interop

CLIENTS, QUESTIONS = 3, 5
TRACES_S = 60.0  # clients write them every 5 s


@pytest.fixture(params=[pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3"])
def driver(request: pytest.FixtureRequest, ours: GantryServer, tmp_path: Path) -> Driver:
    return Driver(request.param, tmp_path, ours.namesrv)


@pytest.mark.parametrize("driver", ["4.9.8", "5.3.3"], indirect=True)
@pytest.mark.parametrize("size", [0, 20_000], ids=["short", "compressed"])
def test_every_client_gets_the_answers_to_its_own_questions(
    driver: Driver, ours: GantryServer, topic: str, size: int
) -> None:
    """The blocking form of client 5.3.3 gives up as soon as its request is stored, on Java's broker as well."""
    create_topic(ours.namesrv, topic)
    mode = "sync" if driver.version == "4.9.8" else "callback"
    events = driver.run("ask", topic=topic, clients=CLIENTS, count=QUESTIONS, mode=mode, size=size)
    asked = [f"{client}:{number}" for client in range(CLIENTS) for number in range(QUESTIONS)]
    replies = [event for event in events if event["event"] == "reply"]
    assert [event for event in events if event["event"] == "error"] == []
    assert sorted(str(reply["question"]) for reply in replies) == sorted(asked)
    for reply in replies:
        text = f"re {reply['question']}"
        assert reply["bodyLength"] == max(size, len(text))
        assert size or reply["body"] == text
        assert str(reply["properties"]["REPLY_TO_CLIENT"]).endswith(f"asking{str(reply['question'])[0]}")
    answered = [event for event in events if event["event"] == "answered"]
    assert [each["status"] for each in answered] == ["SEND_OK"] * len(asked)
    kept = driver.pull("DefaultCluster_REPLY_TOPIC")
    assert {(each["bodyLength"], each["bodySha256"]) for each in replies} <= {
        (each["bodyLength"], each["bodySha256"]) for each in kept
    }
    assert {int(each["queueOffset"]) for each in answered} <= {int(each["queueOffset"]) for each in kept}


def test_questions_are_answered_in_a_namespace(driver: Driver, ours: GantryServer, topic: str) -> None:
    """The clients prefix the name of the reply topic too, which the first reply creates."""
    create_topic(ours.namesrv, f"shop%{topic}")
    mode = "sync" if driver.version == "4.9.8" else "callback"
    events = driver.run("ask", topic=topic, clients=2, count=1, mode=mode, namespace="shop")
    assert [event for event in events if event["event"] == "error"] == []
    assert sorted(str(event["body"]) for event in events if event["event"] == "reply") == ["re 0:0", "re 1:0"]


def test_an_answer_to_a_client_that_is_gone_is_refused_with_a_sentence(driver: Driver) -> None:
    events = driver.run("ask", topic="Unused", to="10.1.2.3@gone", cluster="DefaultCluster")
    (error,) = [event for event in events if event["event"] == "error"]
    assert error["code"] == 1
    assert "channel of <10.1.2.3@gone> not found" in str(error["message"])


def test_traces_are_written_and_read_by_the_admin_tool(
    driver: Driver, ours: GantryServer, topic: str, tmp_path: Path
) -> None:
    create_topic(ours.namesrv, topic)
    with (
        driver.start("exchange", "--trace", topic=topic, group=f"{topic}-group", count=3) as clients,
        MqAdmin("5.3.3", tmp_path, ours.namesrv) as tool,
    ):
        sent = clients.wait_for(lambda p: p.of("sent") if len(p.of("sent")) == 3 else [], "3 messages")
        wanted = [("Pub", "interop-traced", "success"), ("Sub", f"{topic}-group", "success")]
        for event in sent:

            def traced(message: str = str(event["msgId"])) -> bool:
                text = tool.run("queryMsgTraceById", "-n", ours.namesrv, "-i", message)
                rows = [line.split() for line in text.splitlines() if line.startswith(("Pub", "Sub"))]
                return sorted((row[0], row[1], row[-1]) for row in rows) == wanted

            wait_until(traced, f"traces of message {event['index']}", TRACES_S)
        clients.close_input()
        clients.finish()


@pytest.mark.parametrize("version", [pytest.param("4.9.8", marks=pytest.mark.long), "5.3.3", "5.3.3 v2"])
def test_clients_in_a_namespace_meet_there(ours: GantryServer, tmp_path: Path, topic: str, version: str) -> None:
    """The first kind is part of every name on the wire, the second (client 5) a field that does not change names."""
    number, _, second = version.partition(" ")
    create_topic(ours.namesrv, topic)
    driver = Driver(number, tmp_path, ours.namesrv)
    flags = ("--v2",) if second else ()
    events = driver.run("exchange", *flags, topic=topic, group=f"{topic}-group", count=3, namespace="shop")
    sent = [event for event in events if event["event"] == "sent"]
    received = [event for event in events if event["event"] == "received"]
    assert [event["queueTopic"] for event in sent] == [topic] * 3
    assert {(event["topic"], event["msgId"]) for event in received} == {(topic, event["msgId"]) for event in sent}
    stored = topic if second else f"shop%{topic}"
    assert {str(event["msgId"]) for event in sent} == {str(event["msgId"]) for event in driver.pull(stored)}
