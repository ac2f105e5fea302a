"""Registration with the name servers: at start, every period, and at once when a topic changes.

All name servers are told side by side; one that does not answer is tried again after 1, 2, 4 ... seconds, at most the
period, and costs the others nothing.

Source: apache/rocketmq broker/.../BrokerController.java (registerBrokerAll), out/BrokerOuterAPI.java.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Coroutine, Sequence
from typing import Any

from gantrymq import loose_json
from gantrymq.broker.identity import Identity
from gantrymq.broker.topics import TopicTable
from gantrymq.errors import BrokerRefused, ClientError, FormatError
from gantrymq.model.data_version import DataVersion
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.command import Command, request
from gantrymq.remoting.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from gantrymq.world import Clock

log = logging.getLogger(__name__)

MIN_PERIOD_S = 10.0
MAX_PERIOD_S = 60.0
UNREGISTER_TIMEOUT_S = 3.0
OTHERS_S = 1.0  # a broker is ready so long after the first name server knows it, whatever the others do


class Registration:
    """Keeps the name servers informed of one broker."""

    def __init__(
        self,
        client: RemotingClient,
        clock: Clock,
        name_servers: Sequence[str],
        identity: Identity,
        topics: TopicTable,
        *,
        period_s: float,
        timeout_s: float,
    ) -> None:
        self._client = client
        self._clock = clock
        self._identity = identity
        self._topics = topics
        self._period_s = min(MAX_PERIOD_S, max(MIN_PERIOD_S, period_s))
        self._timeout_s = timeout_s
        self._version = DataVersion(timestamp=clock.now_ms())  # of the queue mappings we never have
        self._loops = {address: _Loop(self, address) for address in name_servers}

    def start(self) -> None:
        """Begin to register; returns at once."""
        for loop in self._loops.values():
            loop.start()

    async def registered(self) -> None:
        """Wait until one name server has taken the registration, and the others have taken or refused it.

        Those that do neither are not waited for longer than `OTHERS_S` after the first.
        """
        if not self._loops:
            return
        loops = self._loops.values()
        await _wait([loop.first.wait() for loop in loops], asyncio.FIRST_COMPLETED)
        late = asyncio.Event()
        timer = self._clock.call_later(OTHERS_S, late.set)
        try:
            others = _wait([loop.tried.wait() for loop in loops], asyncio.ALL_COMPLETED)
            await _wait([others, late.wait()], asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    def states(self) -> dict[str, str | None]:
        """Each name server's address, with what went wrong there the last time; None when it has us registered."""
        return {address: loop.problem for address, loop in self._loops.items()}

    def changed(self) -> None:
        """A topic changed: tell all name servers now."""
        for loop in self._loops.values():
            loop.wake()

    async def stop(self) -> None:
        """Stop registering and unregister; a name server that does not answer is left to expire us."""
        for loop in self._loops.values():
            await loop.stop()
        identity = self._identity
        header = UnregisterBrokerRequest(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            broker_id=identity.broker_id,
        )
        asked = [
            self._client.call(
                address, request(RequestCode.UNREGISTER_BROKER, header.to_ext()), timeout_s=UNREGISTER_TIMEOUT_S
            )
            for address, loop in self._loops.items()
            if loop.first.is_set()
        ]
        for outcome in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(outcome, ClientError):
                log.warning("not unregistered: %s", outcome)

    def message(self) -> Command:
        """The registration as a request (103)."""
        identity = self._identity
        body = loose_json.dumps(
            {
                "filterServerList": [],
                "topicConfigSerializeWrapper": {
                    "dataVersion": self._topics.version.to_json(),
                    "mappingDataVersion": self._version.to_json(),
                    "topicConfigTable": {name: topic.to_json() for name, topic in self._topics.registered().items()},
                    "topicQueueMappingDetailMap": {},
                    "topicQueueMappingInfoMap": {},
                },
            }
        )
        header = RegisterBrokerRequest(
            broker_name=identity.broker_name,
            broker_addr=identity.address,
            cluster_name=identity.cluster,
            ha_server_addr=identity.ha_address,
            broker_id=identity.broker_id,
            enable_acting_master=False,
            compressed=False,
            body_crc32=zlib.crc32(body) & 0x7FFFFFFF,
        )
        return request(RequestCode.REGISTER_BROKER, header.to_ext(), body)

    async def register_with(self, address: str) -> None:
        """Register once with one name server.

        Raises:
            ClientError: it cannot be reached, does not answer in time, or refuses.
        """
        answer = await self._client.call(address, self.message(), timeout_s=self._timeout_s)
        if answer.code != 0:
            raise BrokerRefused(answer.code, answer.remark or "no reason given", address)
        self._topics.mark_ordered(sorted(order_topics(answer.payload)))


class _Loop:
    """Registers with one name server for as long as the broker runs."""

    def __init__(self, registration: Registration, address: str) -> None:
        self._registration = registration
        self._address = address
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.first = asyncio.Event()  # set by the first success
        self.tried = asyncio.Event()  # set by the first success or failure
        self.problem: str | None = "not registered yet"

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._wanted.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        failures = 0
        while True:
            self._wanted.clear()
            try:
                await self._registration.register_with(self._address)
                if failures:
                    log.warning("registered with name server %s again", self._address)
                failures = 0
                self.problem = None
                self.first.set()
            except ClientError as error:
                if not failures:
                    log.warning("not registered with name server %s, trying on: %s", self._address, error)
                failures += 1
                self.problem = str(error)
            self.tried.set()
            await self._pause(failures)

    async def _pause(self, failures: int) -> None:
        period = self._registration._period_s
        delay = min(period, 2.0 ** (failures - 1)) if failures else period
        timer = self._registration._clock.call_later(delay, self._wanted.set)
        try:
            await self._wanted.wait()
        finally:
            timer.cancel()


async def _wait(for_each: Sequence[Coroutine[Any, Any, Any]], how: str) -> None:
    """Wait for the first or for all; a start that is cancelled meanwhile leaves none of them behind."""
    waits = [asyncio.ensure_future(each) for each in for_each]
    try:
        await asyncio.wait(waits, return_when=how)
    finally:
        for wait in waits:
            wait.cancel()


def order_topics(body: bytes) -> frozenset[str]:
    """Topics of the KV table that a name server sends back; empty when it sends none."""
    if not body:
        return frozenset()
    try:
        table: Any = loose_json.loads(body)
    except FormatError:
        return frozenset()
    members = table.get("table") if isinstance(table, dict) else None
    return frozenset(str(topic) for topic in members) if isinstance(members, dict) else frozenset()
