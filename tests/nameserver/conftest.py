"""Registrations of brokers in cluster C, a manual clock, and a name service without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from manual_clock import ManualClock

from gantrymq.config import Settings
from gantrymq.loose_json import dumps
from gantrymq.model.data_version import DataVersion
from gantrymq.model.topic import TopicConfig
from gantrymq.remoting.codes import CURRENT_VERSION
from gantrymq.remoting.command import Command
from gantrymq.world import World
from gantrymq.world.real import real_world
from gantrymq_nameserver.notices import MinBrokerIdChange
from gantrymq_nameserver.registration import Registration, RegistrationBody
from gantrymq_nameserver.service import NameService
from gantrymq_nameserver.settings import name_server_settings
from gantrymq_nameserver.tables import RouteTables

MakeRegistration = Callable[..., Registration]


@pytest.fixture
def tables() -> RouteTables:
    return RouteTables()


@pytest.fixture
def registration() -> MakeRegistration:
    def make(
        broker_id: int = 0,
        address: str = "",
        *,
        name: str = "a",
        topics: tuple[str, ...] = ("T", "U"),
        version: int = 1,
        state_version: int = 0,
        perm: int = 6,
        queues: int = 4,
        sys_flag: int = 0,
        mappings: dict[str, Any] | None = None,
        filter_servers: list[str] | None = None,
        **fields: Any,
    ) -> Registration:
        configs = {t: TopicConfig(t, queues, queues, perm, sys_flag=sys_flag) for t in topics}
        body = RegistrationBody(configs, DataVersion(version, state_version, 7), mappings or {}, filter_servers)
        fields = {"cluster": "C", "ha_address": f"ha-{name}-{broker_id}", **fields}
        return Registration(
            broker_name=name, address=address or f"{name}{broker_id}:1", broker_id=broker_id, body=body, **fields
        )

    return make


class InlineWorkers:
    async def run(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def submit(self, work: Callable[..., Any], *args: Any, done: Callable[[Any, BaseException | None], None]) -> None:
        done(work(*args), None)

    async def close(self) -> None:
        pass


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def world(clock: ManualClock) -> World:
    """Real files and sockets, time and threads under control."""
    return attrs.evolve(real_world(), clock=clock, workers=InlineWorkers())


class Desk:
    """A name service that takes requests without a socket."""

    def __init__(self, world: World, home: Path, **values: Any) -> None:
        self.settings = Settings(name_server_settings(home), values)
        self.told: list[MinBrokerIdChange] = []
        self.service = NameService(world, self.settings, self.told.append)
        self.clock = world.clock

    def ask(
        self,
        code: int,
        ext: dict[str, str] | None = None,
        body: bytes | None = None,
        *,
        connection: object = None,
        version: int = CURRENT_VERSION,
    ) -> Command:
        """Send a request, then run the timers that are due."""
        return self.answer(Command(code, ext=ext, body=body, opaque=5, version=version), connection)

    def answer(self, request: Command, connection: object = None) -> Command:
        answer = self.service.answer(request, connection)
        if not isinstance(answer, Command):
            answer = asyncio.run(answer)
        self.clock.advance(0)
        assert answer.is_response
        assert answer.opaque == request.opaque
        assert answer.serialize == request.serialize
        return answer

    def register(self, *, broker_id: int = 0, topics: tuple[str, ...] = ("T", "U"), **fields: Any) -> Command:
        """Register broker-a over the wire form."""
        connection = fields.pop("connection", None)
        wrapper = {
            "dataVersion": {"counter": 1, "stateVersion": 0, "timestamp": 7},
            "topicConfigTable": {topic: {"topicName": topic} for topic in topics},
        }
        ext = {
            "brokerName": "broker-a",
            "brokerAddr": f"127.0.0.1:{10911 + broker_id}",
            "clusterName": "C",
            "haServerAddr": "127.0.0.1:10912",
            "brokerId": str(broker_id),
            **fields,
        }
        return self.ask(103, ext, dumps({"topicConfigSerializeWrapper": wrapper}), connection=connection)


@pytest.fixture
def make_desk(world: World, tmp_path: Path) -> Callable[..., Desk]:
    def make(home: str = "home", **values: Any) -> Desk:
        return Desk(world, tmp_path / home, **values)

    return make


@pytest.fixture
def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
