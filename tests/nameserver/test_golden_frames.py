"""Recorded RocketMQ runs (4.9.7, 5.3.3, 5.5.0), replayed: our answers against Java's, in order.

pack_frames.py describes how the frames were packed.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from gantrymq.loose_json import loads
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, decode
from gantrymq.remoting.frame import FrameDecoder

SCENARIOS = ("normal", "mqadmin", "v497", "v550", "binary", "ha", "ipv6", "pop", "clientops")
FRAMES = Path(__file__).parent / "data" / "frames.jsonl.gz"
LISTS = {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER}  # hash order in Java
OF_GANTRYMQ = ("listeners", "authorizer", "accessPath", "brokerClusterName", "routeAccess")


@pytest.fixture(scope="module")
def recorded() -> dict[str, list[tuple[int, bool, Command]]]:
    runs: dict[str, list[tuple[int, bool, Command]]] = {scenario: [] for scenario in SCENARIOS}
    for line in gzip.decompress(FRAMES.read_bytes()).decode().splitlines():
        seen = json.loads(line)
        (frame,) = FrameDecoder().feed(seen["frame"].encode("latin-1"))
        runs[seen["scenario"]].append((seen["connection"], seen["response"], decode(frame)))
    return runs


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_answers_are_java_s(desk, recorded, scenario):
    waiting: dict[tuple[int, int], tuple[Command, Command]] = {}
    compared = 0
    for connection, is_response, command in recorded[scenario]:
        if is_response:
            compare(*waiting.pop((connection, command.opaque)), command, scenario)
            compared += 1
            continue
        command.ext = {**(command.ext or {}), **as_told(scenario, command)}
        answer = desk.answer(command, connection)
        if not command.is_oneway:
            waiting[connection, command.opaque] = (command, answer)
    assert not waiting
    assert compared >= 8


def as_told(scenario: str, command: Command) -> dict[str, str]:
    """The addresses that the recorder put into some registrations before the name server saw them."""
    if scenario == "v497" and command.code in (103, 104):
        return {"brokerAddr": "127.0.0.2:20911"}
    if scenario == "ha" and command.code == 103 and (command.ext or {})["brokerId"] == "0":
        return {"haServerAddr": "127.0.0.2:20912"}
    return {}


def compare(request: Command, ours: Command, java: Command, scenario: str) -> None:
    assert (ours.code, ours.flag, ours.serialize) == (java.code, java.flag, java.serialize), request
    assert (ours.ext or None) == (java.ext or None)
    if java.code == 17:
        assert (ours.remark or "").splitlines()[0] == (java.remark or "").splitlines()[0]
    else:
        assert ours.remark == java.remark
    if request.code == RequestCode.GET_NAMESRV_CONFIG:
        assert keys(ours) == sorted([*keys(java), *OF_GANTRYMQ])
    elif request.code in LISTS:
        assert {name: sorted(names) for name, names in loads(ours.payload).items()} == {
            name: sorted(names) for name, names in loads(java.payload).items()
        }
    elif scenario == "v497":
        # 4.9.7 has no enableActingMaster, which is the last field of each broker's data
        body = ours.payload.replace(b',"enableActingMaster":false', b"")
        assert body == java.payload
    else:
        assert ours.payload == java.payload


def keys(command: Command) -> list[str]:
    return [line.partition("=")[0] for line in command.payload.decode().splitlines()]
