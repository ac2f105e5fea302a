"""What a send does after a failed attempt. Events and time in, decisions out; no I/O.

    attempt                                       sends in turn     send_async      to a given queue
    nobody reached: no connection, no route       again, uncounted  again           again (no route: raise)
    not ready: code 14, 1500                      again, uncounted  again           again
    connection lost, no answer in time            next attempt      next attempt    raise
    code 1, 2, 16, 17, 204, 205                   next attempt      raise           raise
    any other code, or an account that is denied  raise             raise           raise

What reached nobody, or was turned away by a broker that starts or stops, is stored nowhere, so it may be repeated until
the deadline and is not counted. The other attempts are: there are 1 + retries. An attempt whose answer was lost may be
stored all the same, and then the next one stores the message once more, as with RocketMQ's own clients.

Each attempt goes to another broker. When all have failed there is a pause, longer from time to time and with some
chance in it, so that many clients do not come back together.

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl),
client/.../impl/MQClientAPIImpl.java (onExceptionImpl). The pauses, and what is not counted, are ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import attrs

from gantrymq.client.credentials import AccessDenied
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, NoRoute

__all__ = ["FAILURES", "NOT_READY", "RETRY_CODES", "RetryPolicy", "SendRetries"]

RETRY_CODES: Final = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
NOT_READY: Final = frozenset({14, 1500})  # SERVICE_NOT_AVAILABLE, GO_AWAY
FAILURES: Final = (BrokerRefused, ConnectFailed, ConnectionLost, CallTimeout, NoRoute)  # that a broker or the way has

FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5
CHANCE: Final = 0.25  # of a pause is random
LEAST_LEFT_S: Final = 0.01  # with less no further attempt is begun


@attrs.frozen
class RetryPolicy:
    """How often one kind of send is attempted."""

    attempts: int  # counted ones
    retry_codes: frozenset[int] = RETRY_CODES  # refusals after which another attempt is made
    one_queue: bool = False  # the application chose the queue


class SendRetries:
    """The attempts of one send.

    Attributes:
        brokers: names of those tried, in order.
        avoid: names of those that had their turn since the last pause.
        last: the error of the last attempt.
        decided: whether it is a refusal that no other attempt would help.
    """

    __slots__ = ("_counted", "_pause_s", "_policy", "avoid", "brokers", "decided", "last")

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._counted = 0
        self._pause_s = FIRST_PAUSE_S
        self.brokers: tuple[str, ...] = ()  # many sends wait in a line: what each keeps until then is small
        self.avoid: frozenset[str] = frozenset()
        self.last: BaseException | None = None
        self.decided = False

    @property
    def last_attempt(self) -> bool:
        """Whether the attempt that begins now is the last that counts."""
        return self._counted + 1 >= self._policy.attempts

    @property
    def answered(self) -> bool:
        """Whether the last attempt failed by a broker's decision."""
        return isinstance(self.last, BrokerRefused) and not _stored_nowhere(self.last)

    def failed(self, broker_name: str, error: BaseException) -> bool:
        """Note that an attempt at *broker_name* failed; True when another may be made.

        Args:
            broker_name: empty where no broker could be chosen.
            error: one of `FAILURES`.
        """
        self.last = error
        self.avoid |= {broker_name}
        if isinstance(error, NoRoute):
            return not self._policy.one_queue or len(self.brokers) > 1
        if _stored_nowhere(error):
            return True
        if isinstance(error, AccessDenied) or (
            isinstance(error, BrokerRefused) and error.response_code not in self._policy.retry_codes
        ):
            self.decided = True
            return False
        self._counted += 1
        return self._counted < self._policy.attempts

    def less_safe(self, broker_name: str) -> bool:
        """Note that *broker_name* stored the message less safely than promised; True when another may be tried."""
        self.avoid |= {broker_name}
        self._counted += 1
        return self._counted < self._policy.attempts

    def pause_s(self, brokers: Iterable[str], left_s: float, chance: random.Random) -> float:
        """Seconds to wait before the next attempt; 0 when one of *brokers* has not had its turn.

        After a pause all have their turn again: the one tried last is asked first where it was not reached (a send that
        waits keeps its room there), and last where it refused.

        Args:
            brokers: names of all that the message may go to.
            left_s: until the deadline.
            chance: shortens the pause by up to a quarter.
        """
        names = frozenset(brokers)
        if names - self.avoid:
            return 0.0
        last = self.brokers[-1] if self.brokers else ""
        self.avoid = names - {last} if _stored_nowhere(self.last) and last in names else frozenset({last})
        pause_s = min(self._pause_s * (1 - CHANCE * chance.random()), left_s / 2)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


def _stored_nowhere(error: BaseException | None) -> bool:
    """Whether the attempt that ended with *error* may be repeated as if it had not been."""
    if isinstance(error, BrokerRefused):
        return error.response_code in NOT_READY
    return isinstance(error, ConnectFailed | NoRoute)
