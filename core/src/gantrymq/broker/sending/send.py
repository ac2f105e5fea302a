"""The send operation, independent of the wire protocol.

    submit   checks, interceptors, queue targets (`prepare`) -> `store`
    store    after the topic is on disk: append, gates, publication (`pipeline`) -> response

A topic created by a send is on disk before the message is stored, so that no acknowledged message lacks its topic.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gantrymq.broker.counting.stats import Stats
from gantrymq.broker.roles import Roles
from gantrymq.broker.sending.interceptor_chain import InterceptorChain
from gantrymq.broker.sending.pipeline import Done, Pipeline
from gantrymq.broker.sending.prepare import SendPreparation
from gantrymq.broker.sending.queue_targets import TargetSelector
from gantrymq.broker.tables import Tables
from gantrymq.broker.tables.state_files import StateFiles
from gantrymq.errors import GantryError, TopicNotExist, Unconfirmed
from gantrymq.interfaces import MessageBatch, PutResult, PutStatus, SendAnswer, SendRequest, StoreMessage
from gantrymq.model.names import NOT_SENDABLE
from gantrymq.world.workers import outcome_into, resolve_future

Answered = Callable[[SendAnswer | GantryError], None]


class Sends:
    """Sends of clients and puts of plugins."""

    def __init__(
        self,
        tables: Tables,
        preparation: SendPreparation,
        pipeline: Pipeline,
        state: StateFiles,
        interceptors: InterceptorChain,
        target_selector: TargetSelector,
        roles: Roles,
    ) -> None:
        self._roles = roles
        self._preparation = preparation
        self._pipeline = pipeline
        self._state = state
        self._topics = tables.topics
        self._stats: Stats = tables.stats
        self._target_selector = target_selector
        self._apply_interceptors = interceptors.apply_undecoded

    def submit(self, request: SendRequest, answered: Answered) -> None:
        """Check a send and store it; *answered* is called once, when it is acknowledged or refused by the store.

        Raises:
            GantryError: a check failed, with RocketMQ's code; *answered* is not called.
        """
        try:
            self._roles.check_message()
            messages, queue_id, unique_id, batch_id, fields = self._preparation.prepare(request)

            def done(results: Sequence[PutResult], error: GantryError | None) -> None:
                answered(self.answer(queue_id, unique_id, batch_id, results, error, fields))

            self.store(messages, done)
        except GantryError:
            self._stats.put_failed += 1
            raise

    async def send(self, request: SendRequest) -> SendAnswer:
        """Send and wait for the acknowledgement.

        Raises:
            GantryError: same as `submit`, or the store refuses the message, or a gate fails.
        """
        future: asyncio.Future[SendAnswer] = asyncio.get_running_loop().create_future()
        self.submit(request, outcome_into(future))
        return await future

    def put(
        self, messages: Sequence[StoreMessage], *, skip_interceptors: bool = False
    ) -> Awaitable[Sequence[PutResult]]:
        """Store messages of a plugin in one append, through gates and, unless *skip_interceptors*, interceptors.

        On an acting master, another broker stores them.

        Messages that replicas do not confirm in time are stored like others: delivery, pops and transactions go on
        without slaves, as in RocketMQ.

        Raises:
            RequestError: an interceptor refuses a message; none is stored.
            StoreError: a gate failed, or the disk took too long.
            ServiceNotAvailable: this broker is a replica.
        """
        if (outlet := self._roles.outlet) is not None:
            return outlet(messages, skip_interceptors=skip_interceptors)
        self._roles.check_put()
        made = (
            messages
            if skip_interceptors
            else [each if each.topic in NOT_SENDABLE else self._apply_interceptors(each) for each in messages]
        )
        topic, assigns = None, True
        for number, (message, given) in enumerate(zip(made, messages, strict=True)):
            # The first message must not be tied to a message of another sender.
            message.same_file_as_previous = number > 0 and given.same_file_as_previous
            if message.topic != topic:
                topic = message.topic
                config = self._topics.get(topic)
                assigns = self._target_selector.may_assign(config)
            if assigns:
                self._target_selector.assign_for_plugin(message, config)
        future: asyncio.Future[Sequence[PutResult]] = asyncio.get_running_loop().create_future()
        settle = resolve_future(future)

        def done(results: Sequence[PutResult], error: GantryError | None) -> None:
            settle(results, None if isinstance(error, Unconfirmed) and error.of_replicas else error)

        self._store(made, done, self._roles.check_put)
        return future

    def store(self, messages: Sequence[StoreMessage], done: Done) -> None:
        """Store checked *messages* of clients after their topics are on disk.

        Raises:
            ServiceNotAvailable: the broker is a replica, changes its role, or is stopping.
        """
        self._roles.check_message()
        self._store(messages, done, self._roles.check_message)

    def _store(self, messages: Sequence[StoreMessage], done: Done, check_role: Callable[[], None]) -> None:
        topics = {messages.topic} if type(messages) is MessageBatch else {message.topic for message in messages}
        if all(map(self._state.is_saved, topics)):
            self._pipeline.submit(messages, done)
        else:
            self._store_when_saved(messages, done, check_role)

    def answer(
        self,
        queue_id: int,
        unique_id: str | None,
        batch_id: str | None,
        results: Sequence[PutResult],
        error: GantryError | None,
        fields: Mapping[str, str] | None = None,
    ) -> SendAnswer | GantryError:
        """Return the result of a send from the pipeline's results of its messages."""
        if [result[0] for result in results].count(PutStatus.OK) < len(results):
            bad = next(result for result in results if result.status is not PutStatus.OK)
            self._stats.put_failed += 1
            return bad.error()
        if error is not None and not isinstance(error, Unconfirmed):
            self._stats.put_failed += 1
            return error
        return SendAnswer(queue_id, unique_id, batch_id, results, error, fields)

    def _store_when_saved(self, messages: Sequence[StoreMessage], done: Done, check_role: Callable[[], None]) -> None:
        there = {message.topic for message in messages if self._topics.get(message.topic) is not None}

        def saved(problem: GantryError | None) -> None:
            if deleted := next((topic for topic in there if self._topics.get(topic) is None), ""):
                problem = TopicNotExist(f"topic {deleted} was deleted before the message was stored")
            if problem is not None:
                done((), problem)
                return
            try:
                check_role()  # it may have changed during the save
                self._pipeline.submit(messages, done)
            except GantryError as error:
                done((), error)

        self._state.when_saved(saved)
