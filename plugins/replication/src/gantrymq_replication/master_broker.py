"""The master of a slave: its addresses as name servers report them, and requests to its broker port.

With a fixed role
    HA's protocol does not say whose log is sent. A name server gives a slave the broker address and the HA address of
    the master of its broker name. So with haMasterAddress the connection must be to that HA address, or to that port of
    the broker's host (a master of RocketMQ with brokerIP1 only registers another host for HA); and tables are copied
    from the broker address that was registered with the HA address whose log is followed.

    The size of log files is a setting of the master, which is read from its broker port. Without it, a slave with
    another size notices only at the end of the first file.

With an elected role
    A broker of GantryMQ has an entry in its epoch list for each epoch in which it was the master, so a handshake with
    an older last epoch comes from a master that was replaced, and is refused. RocketMQ's master has none if its log did
    not grow since the epoch before.

    A slave that is more than a log file behind asks where the master's log begins: a master closes the connection of a
    slave that asks for deleted bytes, and a master of RocketMQ sends nothing.

    RocketMQ's master, whose epoch list begins where elections began, sends nothing before that. So the slave asks for
    the message at a log offset.
"""

from __future__ import annotations

import ipaddress
import logging
from contextlib import suppress
from typing import Any, Final

from gantrymq.errors import BrokerRefused, ClientError, GantryError
from gantrymq.plugin.interfaces import BrokerCluster
from gantrymq.plugin.loose_json import loads
from gantrymq.plugin.model import parse_address
from gantrymq.plugin.network import inner_client, is_access_refusal, refused
from gantrymq.plugin.remoting import RequestCode, ResponseCode, request
from gantrymq_replication.peers import report_stop, settings_in, settings_lines
from gantrymq_replication.protocol import Refused

log = logging.getLogger("gantrymq.replication")

_FILE_SIZE: Final = "mappedFileSizeCommitLog"
_CALL_S: Final = 2.0


class MasterBroker:
    """The master of one slave."""

    def __init__(self, broker: BrokerCluster) -> None:
        self.address, self.ha_address = "", ""  # empty until a name server has reported them
        self._broker, self._same_files = broker, ""  # the broker address whose log files have the size of those here
        self._client = inner_client(broker.world, broker.settings)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def learn(self, address: str, ha_address: str) -> bool:
        """Record the addresses that a name server reports. Return whether the HA address has changed."""
        changed = ha_address != self.ha_address
        self.address, self.ha_address = address, ha_address
        return changed

    async def stops(self, address: str, broker_id: int) -> None:
        """Inform the master at the broker address *address* that this broker stops, unless the address is empty."""
        if address:
            await report_stop(self._client, address, broker_id)

    # --- fixed roles --------------------------------------------------------------------------------------------------

    def problem(self, address: str, peer: str) -> str:
        """Return why the HA connection to *address*, in fact to *peer*, is not one to this master; empty if it may be.

        Nothing is known without a name server that reports a master, and nothing about names instead of IP addresses.
        """
        if not self.ha_address or self.ha_address in (address, peer):
            return ""
        try:
            (host, port), (peer_host, peer_port) = parse_address(self.ha_address), parse_address(peer)
            hosts = [host, parse_address(self.address)[0]]
        except ValueError:
            return ""
        if port == peer_port and any(_same_host(each, peer_host) for each in hosts):
            return ""
        return (
            f"name servers tell another HA address of the master of {self._broker.registration.broker_name}: "
            f"{self.ha_address}. So this may be the log of another broker name, or of an old master: correct "
            "haMasterAddress or leave it out; if it is right, set brokerIP2 and haListenPort of the master to it"
        )

    async def check_files(self) -> None:
        """Compare the size of log files with the master's, once.

        Raises:
            Refused: it has another one, or does not answer because it controls access.
        """
        master, settings = self.address, self._broker.settings
        if not master or master == self._same_files or settings.text("store") != "mmap":
            return
        try:
            lines = await settings_lines(self._client, master, RequestCode.GET_BROKER_CONFIG, _CALL_S)
        except BrokerRefused as refusal:
            if is_access_refusal(refusal.response_code, refusal.remark):
                raise Refused(str(refusal)) from refusal
            lines = []
        except GantryError as error:
            log.info("the settings of the master are not known: %s", error)
            return
        its, own = settings_in(lines).get(_FILE_SIZE, ""), settings.number(_FILE_SIZE)
        if its.isdigit() and int(its) != own:
            raise Refused(
                f"its log files have {its} bytes, those here {own}: set {_FILE_SIZE}={its} here too, and start this "
                "slave with an empty store folder"
            )
        self._same_files = master

    # --- elected roles ------------------------------------------------------------------------------------------------

    async def check_access(self, address: str) -> None:
        """Check that the broker at *address* answers requests of this broker; the tables are copied by requests.

        Raises:
            Refused: it controls access. A broker that does not answer at all may do so later.
        """
        with suppress(ConnectionError):
            await self._answer(address, RequestCode.GET_BROKER_HA_STATUS)

    async def is_ours(self, address: str) -> bool:
        """Return whether a broker of GantryMQ, in an election, answers at *address*; False if it refuses to answer.

        Raises:
            ConnectionError: there is no answer.
        """
        return "election" in _members(await self._answer(address, RequestCode.GET_BROKER_HA_STATUS))

    async def message_at(self, address: str, log_offset: int) -> bytes | None:
        """Return the message that the broker at *address* has at *log_offset*; None if the answer has none.

        Raises:
            ConnectionError: there is no answer.
        """
        ext = {"topic": "", "offset": str(log_offset)}
        return await self._answer(address, RequestCode.VIEW_MESSAGE_BY_ID, ext)

    async def first_offset(self, address: str) -> int | None:
        """Return where the log of the broker at *address* begins; None if the answer does not contain it.

        Raises:
            ConnectionError: there is no answer.
        """
        table = _members(await self._answer(address, RequestCode.GET_BROKER_RUNTIME_INFO)).get("table")
        first = str(table.get("commitLogMinOffset")) if isinstance(table, dict) else ""
        return int(first) if first.isdecimal() else None

    async def _answer(self, address: str, code: RequestCode, ext: dict[str, str] | None = None) -> bytes | None:
        """Return the body of an answer; None if the request is refused.

        Raises:
            ConnectionError: there is no answer.
            Refused: the broker controls access.
        """
        try:
            answer = await self._client.call(address, request(code, ext), _CALL_S)
        except ClientError as error:
            raise ConnectionError(f"it does not answer at its broker port: {error}") from error
        if is_access_refusal(answer.code, answer.remark or ""):
            raise Refused(str(refused(self._client, answer, address)))
        return bytes(answer.payload) if answer.code == ResponseCode.SUCCESS else None


def _members(body: bytes | None) -> dict[str, Any]:
    """Return the members of the JSON object *body*; none if it is no such object."""
    try:
        found = loads(body) if body is not None else None
    except GantryError:
        return {}
    return found if isinstance(found, dict) else {}


def _same_host(registered: str, peer: str) -> bool:
    """Return whether *registered* may be the IP address *peer*."""
    try:
        return ipaddress.ip_address(registered) == ipaddress.ip_address(peer)
    except ValueError:
        return True  # a name
