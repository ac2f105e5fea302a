"""Clients of the official 5.x SDKs while the broker is stopped or killed and starts again; its largest messages.

The program is `members` of README.md, which is not started again.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
from harness import Driver, GantryServer, Process, create_group, create_topic
from harness.pops import VERSION, Pops
from harness.probe import request
from harness.sdks import SdkProgram, used_sdk

pytest.importorskip("gantrymq_grpc.protocol", reason="gantrymq-grpc is not installed")
pytestmark = pytest.mark.interop

START_S = 60.0
AGAIN_S = 10.0  # from the ready line
SDKS = ("java-5.0.8", "python-5.1.2", "go-5.1.4", "node-1.0.8")
TOPICS = ("Push", "Normal", "Filter", "Delay")  # messages are sent to the first one
KILLS, UNWATCHED, PAUSE_MS = 20, 5, 100
REST_S = 240.0  # what was in flight is invisible for a minute
SETTLED_S = 10.0  # after it was received a message is acknowledged, and the acknowledgement on disk
LARGEST = 4 * 1024 * 1024  # of a body
GET_MAX_OFFSET = 30
BOTH = {"push", "simple"}
ENDS = [
    pytest.param(GantryServer.stop, id="stopped"),
    pytest.param(GantryServer.kill, id="killed", marks=pytest.mark.long),
]


def _started(scratch: Path) -> GantryServer:
    return GantryServer.both(scratch / "server", settings={"listeners": "sdk=grpc://127.0.0.1:0"})


def _started_again(scratch: Path, before: GantryServer) -> GantryServer:
    """Start a server at the addresses and with the store of the one *before*."""
    settings = {"listeners": f"sdk=grpc://{before.ready['listeners']['sdk']}"}
    return GantryServer.both(scratch / "server", store=before.store, settings=settings, like=before.ready)


def _members(sdk: str, scratch: Path, server: GantryServer, prefix: str, *, attempts: int = 2) -> SdkProgram:
    """Start the clients of an SDK; again if their first requests take longer than the SDK waits, in Java 3 s."""
    program = SdkProgram(sdk, "members", scratch / sdk, server.ready["listeners"]["sdk"], prefix)
    try:
        program.wait_for_start(lambda p: p.of("started"), "its start", START_S)
    except RuntimeError:
        if attempts == 1:
            raise
        return _members(sdk, scratch, server, prefix, attempts=attempts - 1)
    return program


@pytest.mark.parametrize("sdk", SDKS)
@pytest.mark.parametrize("end", ENDS)
def test_idle_clients_receive_again_after_a_restart(
    sdk: str, end: Callable[[GantryServer], object], tmp_path: Path
) -> None:
    used_sdk(sdk)
    with _started(tmp_path) as server:
        for name in TOPICS:
            create_topic(server.namesrv, f"Idle{name}")
        with _members(sdk, tmp_path, server, "Idle") as program:
            assert program.send("before")
            program.wait_for(lambda p: p.receivers("before") == BOTH, "a message before the restart", START_S)
            end(server)
            ended = time.monotonic()
            with _started_again(tmp_path, server):
                ready = time.monotonic()
                limit_s = max(AGAIN_S, ready - ended)  # the SDKs' pauses between attempts grow with the time without it
                program.wait_for(lambda p: p.send("after"), "a send after the restart", limit_s)
                program.wait_for(lambda p: p.receivers("after") == BOTH, "a message after the restart", limit_s)
                assert time.monotonic() - ready <= limit_s


@pytest.mark.long
def test_kills_lose_nothing_of_a_group_with_members_of_both_protocols(tmp_path: Path) -> None:
    """Each member receives and sends; what comes twice was in flight at a kill."""
    sdks = SDKS[:3]
    for each in sdks:
        used_sdk(each)
    kills: list[tuple[float, float]] = []  # and when the server was ready again
    with ExitStack() as stack:
        server = stack.enter_context(_started(tmp_path))
        create_topic(server.namesrv, "MixPush")
        pops = stack.enter_context(Pops(tmp_path / "pops", server.namesrv, server.broker_address))
        programs = [stack.enter_context(_members(each, tmp_path, server, "Mix")) for each in sdks]
        pops.mode("MixPush", "Mixpush")
        pops.push("MixPush", "Mixpush")
        remoting = Driver(VERSION, tmp_path / "remoting", server.namesrv)
        sending = remoting.start("produce", topic="MixPush", body_prefix="remoting", pause_ms=PAUSE_MS)
        stack.enter_context(sending)
        for kill in range(KILLS + 1):
            for number, program in enumerate(programs):
                text = f"grpc{number}-{kill}"
                program.wait_for(lambda p, text=text: p.send(text), "a send", AGAIN_S + START_S)
                for line in range(UNWATCHED):
                    program.write_line(f"{text}-{line} 0")
            before = len(sending.of("sent"))
            sending.wait_for(lambda p, before=before: len(p.of("sent")) > before, "a send", AGAIN_S + START_S)
            if kill < KILLS:
                server.kill()
                killed = time.monotonic()
                server = stack.enter_context(_started_again(tmp_path, server))
                kills.append((killed, time.monotonic()))
        sending.close_input()
        sending.wait_for(lambda p: p.of("done"), "the end of the sends", START_S)  # with an error: some failed
        members: list[Process] = [pops, *programs]
        sent = {event["body"] for each in (sending, *programs) for event in each.of("sent")}
        received = partial(_received, members)
        program.wait_for(lambda _: sent <= received().keys(), "the rest of the messages", REST_S)
        assert len(sent) > KILLS * len(programs)
        for body, times in received().items():
            for first, again in pairwise(times):
                in_flight = [
                    killed < again and killed - SETTLED_S < first < ready + SETTLED_S for killed, ready in kills
                ]
                assert any(in_flight), f"{body} was received at {times}, kills {kills}"


def _received(members: list[Process]) -> dict[str, list[float]]:
    """Return when the members of the group have received each message."""
    found: dict[str, list[float]] = {}
    for member in members:
        for at_s, event in list(member.timed):
            if event["event"] == "received" and event.get("by", "push") == "push":
                found.setdefault(str(event["body"]), []).append(at_s)
    return {body: sorted(times) for body, times in found.items()}


@pytest.mark.parametrize(
    "sdk", ["go-5.1.4", *(pytest.param(each, marks=pytest.mark.long) for each in ("java-5.0.8", "python-5.1.2"))]
)
def test_the_largest_message_arrives(sdk: str, tmp_path: Path) -> None:
    used_sdk(sdk)
    with _started(tmp_path) as server:
        create_topic(server.namesrv, "LargePush")
        with _members(sdk, tmp_path, server, "Large") as program:
            assert program.send("whole", LARGEST), program.of("unsent")
            program.wait_for(lambda p: p.receivers("whole") == BOTH, "the message", START_S)
            assert {event["size"] for event in program.of("received")} == {LARGEST}


def test_the_largest_message_becomes_a_dead_letter_of_clients_that_take_less(tmp_path: Path) -> None:
    """Node's takes at most 4 MiB with all fields of the message."""
    sdk = "node-1.0.8"
    used_sdk(sdk)
    with _started(tmp_path) as server:
        for name in TOPICS:
            create_topic(server.namesrv, f"Large{name}")
        dead = [f"%DLQ%Large{group}" for group in sorted(BOTH)]
        for group, topic in zip(sorted(BOTH), dead, strict=True):
            create_group(server.namesrv, f"Large{group}", retries=1)
            create_topic(server.namesrv, topic, 1)
        with _members(sdk, tmp_path, server, "Large") as program:
            assert program.send("whole", LARGEST), program.of("unsent")
            broker = server.broker_address
            program.wait_for(lambda _: all(_size_of_queue(broker, each) == 1 for each in dead), "dead letters", START_S)
            assert program.send("small")
            program.wait_for(lambda p: p.receivers("small") == BOTH, "a message after it", START_S)
            assert not program.receivers("whole")


def _size_of_queue(broker: str, topic: str) -> int:
    header, _ = request(broker, GET_MAX_OFFSET, {"topic": topic, "queueId": "0"})
    return int(header["extFields"]["offset"])
