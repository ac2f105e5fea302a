"""Renews the messages that push consumers process, as the state machine in `renewal` says."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from gantrymq.errors import GantryError
from gantrymq.plugin.interfaces import Broker, PopAck
from gantrymq.plugin.world import Timer
from gantrymq_grpc.conversion.settings import retry_policy
from gantrymq_grpc.definitions import RetryPolicy
from gantrymq_grpc.mastership import Mastership
from gantrymq_grpc.service.clients import GrpcClients
from gantrymq_grpc.service.deliveries import Deliveries
from gantrymq_grpc.service.renewal import PERIOD_MS, Renewal, Renewals

log = logging.getLogger("gantrymq.grpc")

_AT_ONCE: Final = 64  # renewals that are stored together


class Renewing:
    """The renewals of one broker.

    Attributes:
        failures: number of pops that are not renewed any more because it failed.
    """

    def __init__(self, broker: Broker, deliveries: Deliveries, mastership: Mastership) -> None:
        self.failures = 0
        self._broker = broker
        self._deliveries = deliveries
        self._mastership = mastership
        self._clock = broker.world.clock
        self._renewals = Renewals()
        self._clients: GrpcClients | None = None
        self._timer: Timer | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False

    def __len__(self) -> int:
        """Return the number of kept pops."""
        return len(self._renewals)

    def start(self, clients: GrpcClients) -> None:
        """Renew from now on; *clients* knows which clients are alive."""
        self._clients = clients
        self._arm()

    async def stop(self) -> None:
        """Stop renewing, after the records that are being written."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def keep(
        self, client_id: str, first: PopAck, attempt: int, pop_ms: int, invisible_ms: int, lite_topic: str
    ) -> None:
        """Renew the messages of a pop; see `Renewals.keep`. *pop_ms*: wall clock."""
        age_ms = max(self._clock.now_ms() - pop_ms, 0)
        self._renewals.keep(client_id, first, attempt, self._now_ms() - age_ms, invisible_ms, lite_topic)

    def client_gone(self, client_id: str) -> None:
        """Give back the messages of a client."""
        gone = self._renewals.client_gone(client_id)
        if gone and not self._stopped:
            self._run(self._renew_all(gone))

    def _arm(self) -> None:
        if not self._stopped:
            self._timer = self._clock.call_later(PERIOD_MS / 1000, lambda: self._run(self._step()))

    def _run(self, work: asyncio.Future[None] | object) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _step(self) -> None:
        try:
            assert self._clients is not None
            while self._mastership.serves_receives and not self._stopped:
                due = self._renewals.due(self._now_ms(), _AT_ONCE, self._clients.is_alive, self._back_off_ms)
                if not due:
                    break
                await self._renew_all(due)
        finally:
            self._arm()

    async def _renew_all(self, due: list[Renewal]) -> None:
        for start in range(0, len(due), _AT_ONCE):
            await asyncio.gather(*map(self._renew, due[start : start + _AT_ONCE]))

    async def _renew(self, renewal: Renewal) -> None:
        try:
            left = await self._deliveries.renew(renewal.pop, renewal.invisible_ms)
        except GantryError as error:
            if not self._renewals.failed(renewal, self._now_ms()):
                self.failures += 1
                log.warning("messages of %s could not be renewed: %s", renewal.pop.topic, error)
            return
        if left and not renewal.last:
            again = self._renewals.renewed(renewal, self._now_ms())
            if again is not None:
                await self._renew(again)

    def _back_off_ms(self, group: str, attempt: int) -> int:
        config = self._broker.groups.get(group)
        return 1000 if config is None else back_off_ms(retry_policy(config), attempt)

    def _now_ms(self) -> int:
        return int(self._clock.monotonic() * 1000)


async def _logged(work: object) -> None:
    try:
        await work  # type: ignore[misc]
    except Exception:
        log.exception("renewing messages failed")


def back_off_ms(policy: RetryPolicy, attempt: int) -> int:
    """Return how long a message waits after a failed *attempt*, from 1 on."""
    if policy.WhichOneof("strategy") == "exponential_backoff":
        backoff = policy.exponential_backoff
        first = backoff.initial.seconds * 1000 + backoff.initial.nanos // 1_000_000
        most = backoff.max.seconds * 1000 + backoff.max.nanos // 1_000_000
        return int(min(first * backoff.multiplier ** min(attempt - 1, 64), most))
    steps = policy.customized_backoff.next
    step = steps[min(max(attempt, 1), len(steps)) - 1]
    return step.seconds * 1000 + step.nanos // 1_000_000
