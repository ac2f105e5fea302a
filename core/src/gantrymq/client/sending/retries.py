"""Retry rules of sends. Pure: events and time in, decisions out.

    failed attempt                                sends in turn     send_async      to a given queue
    not reached: no connection, no route          retry, uncounted  retry           retry (no route: raise)
    not ready: code 14, 1500                      retry, uncounted  retry           retry
    connection lost, no response in time          next attempt      next attempt    raise
    code 1, 2, 16, 17, 204, 205                   next attempt      raise           raise
    any other code, or access denied              raise             raise           raise

An attempt that reached no broker, or a broker that is starting or stopping, stored nothing. It is not counted and may
be repeated until the deadline. Other attempts are counted, up to 1 + retries. An attempt whose response was lost may
have stored the message, so that a retry stores it twice, as with RocketMQ's own clients.

Each attempt uses another broker. When all have failed there is a pause, which grows and is partly random, so that many
clients do not return at the same time.

Sources: apache/rocketmq client/.../impl/producer/DefaultMQProducerImpl.java (sendDefaultImpl),
client/.../impl/MQClientAPIImpl.java (onExceptionImpl). The pauses and the uncounted attempts are ours.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

import attrs

from gantrymq.client.calls.credentials import AccessDenied
from gantrymq.errors import BrokerRefused, CallTimeout, ConnectFailed, ConnectionLost, NoRoute

RETRY_CODES: Final = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})
NOT_READY: Final = frozenset({14, 1500})  # SERVICE_NOT_AVAILABLE, GO_AWAY
FAILURES: Final = (
    BrokerRefused,
    ConnectFailed,
    ConnectionLost,
    CallTimeout,
    NoRoute,
)  # failures of a broker or of the network

_FIRST_PAUSE_S: Final = 0.05
LONGEST_PAUSE_S: Final = 0.5
_CHANCE: Final = 0.25  # random share of a pause
LEAST_LEFT_S: Final = 0.01  # no further attempt with less time left


@attrs.frozen
class RetryPolicy:
    """Number and conditions of the attempts of one kind of send."""

    attempts: int  # counted attempts
    retry_codes: frozenset[int] = RETRY_CODES  # refusals that are retried
    one_queue: bool = False  # the application chose the queue


class SendRetries:
    """The attempts of one send.

    Attributes:
        brokers: names of the brokers tried, in order.
        avoid: names of the brokers tried since the last pause.
        last: the error of the last attempt.
        decided: whether it is a refusal for which a retry does not help.
    """

    __slots__ = ("_counted", "_pause_s", "_policy", "avoid", "brokers", "decided", "last")

    def __init__(self, policy: RetryPolicy) -> None:
        self._policy = policy
        self._counted = 0
        self._pause_s = _FIRST_PAUSE_S
        self.brokers: tuple[str, ...] = ()  # a tuple, as many waiting sends hold one
        self.avoid: frozenset[str] = frozenset()
        self.last: BaseException | None = None
        self.decided = False

    @property
    def last_attempt(self) -> bool:
        """Whether the attempt that starts now is the last counted one."""
        return self._counted + 1 >= self._policy.attempts

    @property
    def answered(self) -> bool:
        """Whether the last attempt was refused by a broker."""
        return isinstance(self.last, BrokerRefused) and not _stored_nowhere(self.last)

    def failed(self, broker_name: str, error: BaseException) -> bool:
        """Note that an attempt at *broker_name* failed; return whether to retry.

        Args:
            broker_name: empty if no broker could be chosen.
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
        """Note that *broker_name* stored the message less safely than promised; return whether to try another one."""
        self.avoid |= {broker_name}
        self._counted += 1
        return self._counted < self._policy.attempts

    def pause_s(self, brokers: Iterable[str], left_s: float, chance: random.Random) -> float:
        """Return the seconds to wait before the next attempt; 0 if one of *brokers* is untried.

        After a pause all brokers may be tried again. The broker tried last comes first if it was not reached (a waiting
        send keeps its room there), and last if it refused.

        Args:
            brokers: names of all possible brokers.
            left_s: seconds until the deadline.
            chance: shortens the pause by up to a quarter.
        """
        names = frozenset(brokers)
        if names - self.avoid:
            return 0.0
        last = self.brokers[-1] if self.brokers else ""
        self.avoid = names - {last} if _stored_nowhere(self.last) and last in names else frozenset({last})
        pause_s = min(self._pause_s * (1 - _CHANCE * chance.random()), left_s / 2)
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        return pause_s


def _stored_nowhere(error: BaseException | None) -> bool:
    """Return whether the attempt that ended with *error* certainly stored nothing."""
    if isinstance(error, BrokerRefused):
        return error.response_code in NOT_READY
    return isinstance(error, ConnectFailed | NoRoute)
