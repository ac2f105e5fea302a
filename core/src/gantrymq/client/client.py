"""The client: one set of connections for all that a program sends, consumes and looks up.

    async with Client("127.0.0.1:9876") as client:
        producer = client.producer("shop")
        await producer.send(Message("Orders", b"one apple"))
        async for message in client.consumer("billing", "Orders", consume_from="first"):
            print(message.body)

What a client makes is started, and closed with the client if not before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from gantrymq.client.base import BaseClient
from gantrymq.client.identity import DEFAULT_INSTANCE
from gantrymq.model.subscription import ALL, TAG
from gantrymq.remoting.tls_contexts import TlsClient
from gantrymq.world import World

if TYPE_CHECKING:
    from gantrymq.client.admin import Admin
    from gantrymq.client.group.consumer import Consumer
    from gantrymq.client.producer import Producer
    from gantrymq.client.reader import Reader
    from gantrymq.client.transactions import Check, TransactionProducer

__all__ = ["Client"]

Part = TypeVar("Part", bound=BaseClient)


class Client(BaseClient):
    """Used as ``async with``, or between `start` and `close`."""

    def __init__(
        self,
        namesrv: str | None = None,
        *,
        world: World | None = None,
        instance_name: str = DEFAULT_INSTANCE,
        unit_name: str = "",
        client_ip: str | None = None,
        tls: bool | TlsClient | None = None,
    ) -> None:
        """Nothing is opened before `start`.

        Args:
            namesrv: ``host:port;host:port``; None for $NAMESRV_ADDR, then 127.0.0.1:9876.
            world: None for the real one.
            instance_name: name in the client's id, and of the file of offsets of broadcasting consumers.
            unit_name: unit of a cluster divided into units.
            client_ip: to be known by; None for the address that leads to the name servers.
            tls: as `gantrymq.client.Producer` has it.
        """
        super().__init__(namesrv, world, instance_name, unit_name, client_ip, tls)
        self._options: dict[str, Any] = {"instance_name": instance_name}
        self._parts: list[BaseClient] = []
        self._admin: Admin | None = None

    def producer(self, group: str, **options: Any) -> Producer:
        """A started producer of *group*; *options* as `gantrymq.client.Producer` has them.

        Raises:
            InvalidParameter, ConfigError: a name or option is not legal.
            ClientError: the client is not started, or has a producer of that group.
        """
        from gantrymq.client.producer import Producer

        return self._begun(Producer(group, self._namesrv, **self._options, **options))

    def transaction_producer(self, group: str, check: Check, **options: Any) -> TransactionProducer:
        """A started producer with transactions; arguments as `TransactionProducer` has them. Raises as `producer`."""
        from gantrymq.client.transactions import TransactionProducer

        return self._begun(TransactionProducer(group, check, self._namesrv, **self._options, **options))

    def consumer(
        self,
        group: str,
        topics: str | Mapping[str, str],
        *,
        expression: str = ALL,
        expression_type: str = TAG,
        **options: Any,
    ) -> Consumer:
        """A started member of the consumer group *group*; arguments as `gantrymq.client.Consumer` has them.

        Raises:
            InvalidParameter: a name or option is not legal.
            ClientError: the client is not started, or has a consumer of that group.
        """
        from gantrymq.client.group.consumer import Consumer

        return self._begun(
            Consumer(
                group,
                topics,
                self._namesrv,
                expression=expression,
                expression_type=expression_type,
                **self._options,
                **options,
            )
        )

    def reader(self, group: str) -> Reader:
        """A started `gantrymq.client.Reader`; *group* is that of the offsets that it commits. Raises as `consumer`."""
        from gantrymq.client.reader import Reader

        return self._begun(Reader(group, self._namesrv, **self._options))

    @property
    def admin(self) -> Admin:
        """What is asked and set about topics and groups. Raises ClientError: the client is not started."""
        if self._admin is None:
            from gantrymq.client.admin import Admin

            self._admin = self._begun(Admin(self._namesrv))
        return self._admin

    def _begun(self, part: Part) -> Part:
        part.start_in(self._started())
        self._parts = [each for each in self._parts if each.is_started]
        self._parts.append(part)
        return part

    async def close(self, timeout_s: float | None = None) -> None:
        """Close what the client made, then the connections; as `BaseClient.close`."""
        parts, self._parts, self._admin = self._parts, [], None
        for part in parts:
            part.closed_by(asyncio.current_task())
        await asyncio.gather(*(part.close(timeout_s) for part in parts))
        await super().close(timeout_s)
