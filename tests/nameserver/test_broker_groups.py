"""Brokers of one name that join, leave and take each other's place: our answers against those of RocketMQ 5.3.3.

data/broker_groups.json.gz holds what Java's name server answered to the scripts of tests/support/broker_groups.py;
tests/interop/test_broker_groups.py checks that it still does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from broker_groups import SCRIPTS, SETTINGS, play, recorded

from gantrymq.config import Settings
from gantrymq.world.real import real_world
from gantrymq_nameserver.server import NameServer
from gantrymq_nameserver.settings import name_server_settings

JAVA = Path(__file__).parent / "data" / "broker_groups.json.gz"


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_group_of_brokers_is_answered_as_by_java(tmp_path, script):
    answers = asyncio.run(answers_of(script, tmp_path))
    expected = recorded(JAVA)[script]
    assert [step for step, _ in answers] == [step for step, _ in expected]
    for (step, ours), (_, java) in zip(answers, expected, strict=True):
        assert ours == java, step


async def answers_of(script: str, home: Path) -> list[list[object]]:
    values = {"listenPort": 0, "bindAddress": "127.0.0.1", "scanNotActiveBrokerInterval": 500}
    flags = {key: value == "true" for key, value in SETTINGS.items() if key not in values}
    server = NameServer(real_world(), Settings(name_server_settings(home), {**values, **flags}))
    host, port = await server.start()
    try:
        return await asyncio.to_thread(play, f"{host}:{port}", SCRIPTS[script])
    finally:
        await server.stop()
