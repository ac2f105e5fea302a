"""A client with its own connection past the proxy, which must not notice the faults of the others."""

from __future__ import annotations

import asyncio
import threading
from types import TracebackType
from typing import Self

from load_rig import connect, create_topic_request, percentile, pull_request
from load_rig.connection import Answer, Connection
from load_rig.requests import send_request

TOPIC = "ChaosBystander"
STOP_S = 30.0
OK = 0


class Bystander:
    """Sends messages and pulls them back, one at a time, in its own thread until the context ends.

    Attributes:
        sent: acknowledged messages.
        refused: codes of unexpected answers.
        lost: whether its connection was ever closed.
    """

    def __init__(self, address: str) -> None:
        self.sent = 0
        self.refused: list[int] = []
        self.lost = False
        self._times: list[float] = []
        self._address = address
        self._running = True
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def usual_s(self) -> float:
        """The median time of its sends."""
        return percentile(sorted(self._times), 0.5)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop after the current request; a request without an answer is an error."""
        self._running = False
        self._thread.join(STOP_S)
        assert not self._thread.is_alive(), "the bystander waits for an answer"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error

    async def _work(self) -> None:
        (connection,) = await connect(self._address)
        self._expect(await connection.call(create_topic_request(TOPIC, 1)))
        request = send_request(TOPIC, 0, b"bystander", queues=1)
        while self._running and not connection.lost:
            answer = await asyncio.wait_for(connection.call(request), STOP_S)
            self._times.append(answer.took_s)
            self._expect(answer)
            self.sent += 1
            await self._pull(connection)
        self.lost = connection.lost
        connection.close()

    async def _pull(self, connection: Connection) -> None:
        pulled = await asyncio.wait_for(connection.call(pull_request(TOPIC, 0, self.sent - 1, "bystander")), STOP_S)
        self._expect(pulled)
        if pulled.max_offset != self.sent:
            self.refused.append(-1)

    def _expect(self, answer: Answer) -> None:
        if answer.code != OK:
            self.refused.append(answer.code)
