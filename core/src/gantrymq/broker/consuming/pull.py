"""Pull requests: checks, reads from the store, and waiting for messages.

Order and codes of the checks are RocketMQ's. A pull that finds no message at the end of its queue is held as long as
it allows, and gets its response when a matching message arrives.

Source: apache/rocketmq broker/.../processor/PullMessageProcessor.java, DefaultPullMessageResultHandler.java.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple

from gantrymq.broker.consuming.deferred_reads import DeferredReads
from gantrymq.broker.consuming.filters import Filters
from gantrymq.broker.consuming.held_pulls import HeldPulls
from gantrymq.broker.consuming.offset_commits import OffsetCommits
from gantrymq.broker.consuming.slave_reads import HOLD_S, MASTER_ID, SlaveReads
from gantrymq.broker.queue_kinds import reported_min_offset
from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.clients import BROADCASTING
from gantrymq.config import Settings
from gantrymq.errors import (
    ConnectionLost,
    FilterFailed,
    GantryError,
    InvalidParameter,
    NoPermission,
    RequestError,
    RequestRefused,
    SubscriptionNotExist,
    SubscriptionNotLatest,
    SubscriptionParseFailed,
    TopicNotExist,
)
from gantrymq.interfaces import (
    Bounds,
    ClientChannel,
    ConnectedClient,
    GetLimit,
    GetResult,
    GetStatus,
    MessageFilter,
    MessageStore,
    PullAnswer,
    PullRequest,
    RawLog,
)
from gantrymq.model.group import GroupConfig
from gantrymq.model.queue import Queue
from gantrymq.model.subscription import ALL, TAG, Subscription
from gantrymq.model.sys_flag import PULL_COMMIT_OFFSET, PULL_SUBSCRIPTION, PULL_SUSPEND
from gantrymq.model.topic import PERM_READ, TopicConfig
from gantrymq.world import Clock
from gantrymq.world.workers import outcome_into

FOUND = 0
PULL_NOT_FOUND = 19
PULL_RETRY_IMMEDIATELY = 20
PULL_OFFSET_MOVED = 21
OFFSET_RESET = "OFFSET_RESET"  # the remark for a reset

_CODES = {
    GetStatus.FOUND: FOUND,
    GetStatus.NO_MATCHED_MESSAGE: PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: PULL_RETRY_IMMEDIATELY,
    GetStatus.OFFSET_FOUND_NULL: PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: PULL_OFFSET_MOVED,
}

log = logging.getLogger(__name__)


class PullForbidden(NoPermission):
    """NO_PERMISSION (16) with RocketMQ's forbiddenType: 1 broker, 2 group, 3 topic, 4 broadcasting, 5 subscription."""

    def __init__(self, forbidden_type: int, message: str) -> None:
        super().__init__(message)
        self.forbidden_type = forbidden_type


Respond = Callable[[PullAnswer | GantryError], None]


class Requester(NamedTuple):
    """The origin of a pull and the callbacks for its response."""

    connection: ClientChannel | None
    respond: Respond
    lost: Callable[[], object] = lambda: None  # called instead of *respond* when the connection closes


class Pulls:
    """Service for pulls from the store."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        store: MessageStore,
        raw_log: RawLog | None,
        tables: Tables,
        offset_commits: OffsetCommits,
        filters: Filters,
        held: HeldPulls,
        deferred: DeferredReads,
        is_master: Callable[[], bool],
        serves_as_master: Callable[[], bool],
    ) -> None:
        """*serves_as_master*: this broker is the master, or acts as it while it is missing."""
        self._settings = settings
        self._is_master, self._serves_as_master = is_master, serves_as_master
        self._slave_reads = SlaveReads(settings, serves_as_master)
        self._clock = clock
        self._store, self._raw_log = store, raw_log
        self._topics = tables.topics
        self._groups = tables.groups
        self._clients = tables.clients
        self._offsets = tables.offsets
        self._offset_commits = offset_commits
        self._filters = filters
        self._held, self._deferred = held, deferred
        self._stats, self._access = tables.stats, tables.access
        self._tasks: set[asyncio.Future[Any]] = set()
        self._suggest: Callable[[PullRequest, PullAnswer], int] | None = None

    def suggest_broker(self, suggest: Callable[[PullRequest, PullAnswer], int]) -> None:
        """Set *suggest* as the function that chooses the broker id recommended by each pull's answer."""
        self._suggest = suggest

    async def pull(self, request: PullRequest, connection: ClientChannel | None = None) -> PullAnswer:
        """Serve one pull, waiting for messages as long as it allows.

        Raises:
            GantryError: an error of ``serve`` or in its response; ConnectionLost if *connection* closes meanwhile.
        """
        future: asyncio.Future[PullAnswer] = asyncio.get_running_loop().create_future()
        respond = outcome_into(future)
        gone = ConnectionLost("the connection that a pull waited for has closed")
        self._serve(request, Requester(connection, respond, partial(respond, gone)))
        return await future

    def serve(self, request: PullRequest, connection: ClientChannel | None, respond: Respond) -> None:
        """Check a pull and call *respond* once, now or later, but never after *connection* is closed.

        Raises:
            RequestError: a check failed, with RocketMQ's code.
        """
        self._serve(request, Requester(connection, respond))

    def _serve(self, request: PullRequest, requester: Requester) -> None:
        if requester.connection is not None and requester.connection.response_limiter.busy:
            self._in_turn(request, requester, may_hold=True)
        else:
            self._attempt(request, requester, may_hold=True)

    # --- one attempt ------------------------------------------------------------------------------------------------

    def _attempt(self, request: PullRequest, requester: Requester, *, may_hold: bool) -> None:
        topic, group, subscription, match = self._checked(request)
        queue, respond = Queue(request.topic, request.queue_id), requester.respond
        if may_hold and request.sys_flag & PULL_COMMIT_OFFSET and self._serves_as_master():
            # A replica has its master's offsets. RocketMQ's clients leave the flag out in pulls from a slave, and its
            # slaves before 5.0 ignore it.
            try:
                self._offset_commits.commit(request.group, queue, request.commit_offset)
            except RequestError as problem:  # serve the pull anyway: it has its own offset
                log.debug("a pull's commit is left out: %s", problem)
        if requester.connection is not None and requester.connection.closed:  # no reset may be taken for it
            requester.lost()
            return
        if self._deferred.sends_wait() and self._deferred.defer(
            partial(self._again, _without_commit(request), requester, may_hold=may_hold)
        ):
            return
        reset = self._offsets.take_reset(request.group, queue, request.queue_offset)
        if reset is not None:
            bounds = self._store.bounds(queue)
            where = (reset, reported_min_offset(topic, bounds), bounds.max_offset)
            self._stats.pulled(0)
            respond(PullAnswer(PULL_OFFSET_MOVED, OFFSET_RESET, *where, (), 0, 0, topic.sys_flag, group.sys_flag))
            return
        began = self._clock.monotonic()
        try:
            found = self._store.get(queue, request.queue_offset, GetLimit(request.max_count), match)
        except FilterFailed as error:
            raise SubscriptionParseFailed(self._filters.reject(subscription, error)) from error
        if isinstance(found, GetResult):
            self._stats.got_in(self._clock.monotonic() - began)
            self._finish(found, request, topic, group, match, requester, began, may_hold=may_hold)
            return

        def cold_read_done(future: asyncio.Future[GetResult]) -> None:
            self._tasks.discard(future)
            if future.cancelled():
                return
            self._stats.got_in(self._clock.monotonic() - began)
            error = future.exception()
            if isinstance(error, ConnectionLost):
                requester.lost()
            elif isinstance(error, FilterFailed):
                respond(SubscriptionParseFailed(self._filters.reject(subscription, error)))
            elif isinstance(error, GantryError):
                respond(error)
            elif error is not None:
                log.error("a cold read of %s failed", queue, exc_info=error)
                respond(RequestRefused(1, f"reading {queue} failed: {error}"))
            else:
                self._finish(future.result(), request, topic, group, match, requester, began, may_hold=may_hold)

        task = asyncio.ensure_future(_awaited(found, requester.connection))
        self._tasks.add(task)
        task.add_done_callback(cold_read_done)

    def _finish(
        self,
        found: GetResult,
        request: PullRequest,
        topic: TopicConfig,
        group: GroupConfig,
        match: MessageFilter,
        requester: Requester,
        began: float,
        *,
        may_hold: bool,
    ) -> None:
        code = _CODES.get(found.status)
        if code is None:  # the queue does not exist or is empty
            code = PULL_OFFSET_MOVED if request.queue_offset != 0 else PULL_NOT_FOUND
        on_slave = code != FOUND and not self._serves_as_master()
        if code == PULL_OFFSET_MOVED and request.queue_offset > found.max_offset and self._hides_the_end():
            # The former master may have shown more, which becomes visible here when the replicas have it.
            code, found = PULL_NOT_FOUND, found._replace(next_offset=request.queue_offset)
        if code == PULL_OFFSET_MOVED and not self._is_master():
            on_slave = True
            # The queue may end later on the master, so the offset is kept; RocketMQ's slave sends its own end.
            code = PULL_NOT_FOUND if request.queue_offset > found.max_offset else PULL_RETRY_IMMEDIATELY
            found = found._replace(next_offset=request.queue_offset)
        queue, by = Queue(request.topic, request.queue_id), requester.connection.peer if requester.connection else None
        last = self._offsets.pulled(request.group, queue, found.next_offset, began, by)
        if not match.accepts_all and code != PULL_OFFSET_MOVED:
            last.checked += found.next_offset - request.queue_offset
            last.matched += found.count
        held = code == PULL_NOT_FOUND and may_hold and request.sys_flag & PULL_SUSPEND
        if held and self._hold(request, requester, match, HOLD_S if on_slave else None):
            return
        if found.status is GetStatus.NO_MATCHED_MESSAGE and found.next_offset == request.queue_offset:
            asyncio.get_running_loop().call_soon(self._again, request, requester)  # the filter used up its time slice
            return
        self._stats.pulled(found.count, request.topic, request.group, found.size)
        answer = PullAnswer(
            PULL_RETRY_IMMEDIATELY if on_slave else code,
            found.status.name,
            found.next_offset,
            reported_min_offset(topic, Bounds(found.min_offset, found.max_offset)),
            found.max_offset,
            found.buffers,
            found.size,
            found.count,
            topic.sys_flag,
            group.sys_flag,
            self._slave_reads.suggested(group, found) if found.distant or group.broker_id else MASTER_ID,
        )
        requester.respond(answer if self._suggest is None else self._with_suggestion(request, answer))

    def _hides_the_end(self) -> bool:
        """Return whether a limit of visibility hides messages of the log."""
        raw_log = self._raw_log
        limit = None if raw_log is None else raw_log.visibility_limit
        return raw_log is not None and limit is not None and limit < raw_log.log_range().max_offset

    def _with_suggestion(self, request: PullRequest, answer: PullAnswer) -> PullAnswer:
        assert self._suggest is not None
        try:
            return answer._replace(suggested_broker_id=self._suggest(request, answer))
        except Exception:
            log.exception("the choice of a broker for the next pull failed")
            return answer

    def _hold(
        self, request: PullRequest, requester: Requester, match: MessageFilter, most_s: float | None = None
    ) -> bool:
        long = self._settings.flag("longPollingEnable")
        timeout_ms = request.suspend_ms if long else self._settings.number("shortPollingTimeMills")
        if timeout_ms <= 0:
            return False
        wake = partial(self._again, request, requester)
        queue, at = Queue(request.topic, request.queue_id), request.queue_offset
        if self._store.bounds(queue).max_offset > at:  # a message arrived during a cold read
            wake()
            return True
        timeout_s = timeout_ms / 1000 if most_s is None else min(timeout_ms / 1000, most_s)
        return self._held.add(
            queue, at, match, timeout_s, requester.connection, wake, requester.lost, request.group, request.principal
        )

    def _in_turn(self, request: PullRequest, requester: Requester, *, may_hold: bool) -> None:
        """Attempt the pull after the peer has read the previous responses."""
        connection = requester.connection
        assert connection is not None

        async def attempt() -> None:
            self._again(request, requester, may_hold=may_hold, in_turn=True)

        def done(future: asyncio.Future[None]) -> None:
            self._tasks.discard(future)
            if not future.cancelled() and future.exception() is not None:  # the connection was lost
                requester.lost()

        task = asyncio.ensure_future(connection.response_limiter.run(attempt()))
        self._tasks.add(task)
        task.add_done_callback(done)

    def _again(
        self, request: PullRequest, requester: Requester, *, may_hold: bool = False, in_turn: bool = False
    ) -> None:
        connection = requester.connection
        if connection is not None and connection.closed:  # no reset may be taken for it
            requester.lost()
            return
        if connection is not None and not in_turn and connection.response_limiter.busy:
            self._in_turn(request, requester, may_hold=may_hold)
            return
        try:
            self._attempt(request, requester, may_hold=may_hold)
        except GantryError as error:
            requester.respond(error)
        except Exception as error:
            queue = Queue(request.topic, request.queue_id)
            log.exception("a pull of %s that waited failed", queue)
            requester.respond(RequestRefused(1, f"reading {queue} failed: {error}"))

    # --- checks -----------------------------------------------------------------------------------------------------

    def _checked(self, request: PullRequest) -> tuple[TopicConfig, GroupConfig, Subscription, MessageFilter]:
        self._slave_reads.check()
        if request.principal is not None:  # for each attempt: a held pull ends with the permission
            self._access.check_consumer(request.principal, request.group, request.topic)
        if not self._settings.number("brokerPermission") & PERM_READ:
            raise PullForbidden(1, "this broker's brokerPermission forbids reading")
        if request.lite and not self._settings.flag("litePullMessageEnable"):
            raise PullForbidden(1, "this broker is set to refuse lite pulls (litePullMessageEnable=false)")
        group = self._groups.require(request.group)
        if not group.consume_enable:
            raise PullForbidden(2, f"consumer group {request.group} is switched off (consumeEnable=false)")
        topic = self._topics.get(request.topic)
        if topic is None:
            raise TopicNotExist(
                f"topic {request.topic} does not exist on this broker; create it with: gantrymq topic create -t "
                f"{request.topic}"
            )
        if not topic.readable:
            raise PullForbidden(3, f"topic {request.topic} may not be read (perm {topic.perm})")
        if not 0 <= request.queue_id < topic.read_queues:
            raise InvalidParameter(
                f"queueId {request.queue_id} is outside topic {request.topic}, with {topic.read_queues} read queues"
            )
        subscription = self._subscription(request)
        return topic, group, subscription, self._filters.compiled(subscription)

    def _subscription(self, request: PullRequest) -> Subscription:
        if request.sys_flag & PULL_SUBSCRIPTION:
            return Subscription(
                request.topic,
                request.expression or ALL,
                request.expression_type or TAG,
                request.version,
                request.group,
            )
        online = self._clients.consumer_group(request.group)
        if online is None:
            raise SubscriptionNotExist(
                f"consumer group {request.group} has no member here yet; heartbeats come every 30 s"
            )
        if online.message_model == BROADCASTING:
            config = self._groups.get(request.group)
            if config is not None and not config.consume_broadcast_enable:
                raise PullForbidden(4, f"consumer group {request.group} may not consume by broadcasting")
        if not self._groups.may_read(request.group, request.topic):
            raise PullForbidden(5, f"consumer group {request.group} is forbidden to read topic {request.topic}")
        subscription = online.subscriptions.get(request.topic)
        if subscription is None:
            raise SubscriptionNotExist(f"consumer group {request.group} does not subscribe to topic {request.topic}")
        if subscription.version < request.version:
            raise SubscriptionNotLatest(
                f"this broker knows version {subscription.version} of the subscription of {request.group} to "
                f"{request.topic}, not yet {request.version}; the next heartbeat brings it"
            )
        return subscription


def _without_commit(request: PullRequest) -> PullRequest:
    """Return *request* without its commit, which was done already."""
    return request._replace(sys_flag=request.sys_flag & ~PULL_COMMIT_OFFSET)


async def _awaited(result: Awaitable[GetResult], connection: ConnectedClient | None) -> GetResult:
    return await (result if connection is None else connection.response_limiter.run(result))
