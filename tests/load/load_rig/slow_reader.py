"""A client that pulls large bodies and does not read the answers."""

import asyncio

from polling import until

from load_rig.connection import Answer, Connection
from load_rig.requests import create_topic_request, pull_request, send_request

TOPIC = "BigBodies"
BODY_BYTES = 256 * 1024
MESSAGES = 16
PULLS_AT_ONCE = 10
MOST_PULLS = 200  # their answers stay below the 64 MiB of unwritten data that closes a connection


class SlowReader:
    """Sends a few pulls every 20 ms, MOST_PULLS in all, without reading; later reads all outstanding answers,
    and may start again.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.read_bytes = 0
        self.wrong: list[bytes] = []
        self._task: asyncio.Task[None] | None = None

    async def prepare(self) -> None:
        """Create the topic and its messages."""
        assert (await self.connection.call(create_topic_request(TOPIC, 1))).code == 0
        for _ in range(MESSAGES):
            assert (await self.connection.call(send_request(TOPIC, 0, b"b" * BODY_BYTES))).code == 0

    def start(self) -> None:
        """Stop reading and start sending pulls."""
        self.connection.stop_reading()
        self._task = asyncio.create_task(self._go_on())

    async def read_all(self, deadline_s: float) -> None:
        """Send no more pulls, and read until no answer is outstanding or *deadline_s* has passed."""
        assert self._task is not None
        self._task.cancel()
        self.connection.read_on()
        await until(lambda: not self.connection.waiting or self.connection.lost, "answers", deadline_s)

    async def _go_on(self) -> None:
        for number in range(MOST_PULLS):
            self.connection.ask(pull_request(TOPIC, 0, number % MESSAGES, "slow"), self._answered)
            if number % PULLS_AT_ONCE == 0:
                await asyncio.sleep(0.02)  # real time: rate of the load

    def _answered(self, connection: Connection, answer: Answer) -> None:
        self.read_bytes += answer.body_bytes
        if answer.code or answer.body_bytes <= BODY_BYTES:
            self.wrong.append(answer.header)
