"""The master of a slave as name servers tell it: whether a connection goes there, and whether its log files fit.

HA's protocol does not say whose log is sent. A name server tells a slave the broker address and the HA address of the
master of its broker name. So with haMasterAddress the connection must go to that HA address, or to that port of the
broker's host (a master of RocketMQ with brokerIP1 only registers another host for HA); and tables come from the broker
address that was told with the HA address whose log is followed.

The size of log files is a setting of the master, which it tells at its broker port. Without that answer, a slave with
another size notices only at the end of the first file.
"""

from __future__ import annotations

import ipaddress
import logging
from typing import Final

from gantrymq.errors import BrokerRefused, GantryError
from gantrymq.interfaces import Broker
from gantrymq.model.hosts import parse_address
from gantrymq.remoting.client import RemotingClient
from gantrymq.remoting.codes import RequestCode
from gantrymq.remoting.tls_settings import client_of
from gantrymq_replication.peers import settings_in, settings_lines, tell_stop
from gantrymq_replication.protocol import Refused

__all__ = ["ToldMaster"]

log = logging.getLogger("gantrymq.replication")

FILE_SIZE: Final = "mappedFileSizeCommitLog"
CALL_S: Final = 2.0


class ToldMaster:
    """What one slave knows of its master."""

    def __init__(self, broker: Broker) -> None:
        self.broker_address = ""  # empty until a name server tells it
        self.ha_address = ""
        self._broker, self._same_files = broker, ""  # the broker address whose log files have the size of those here
        self._client = RemotingClient(broker.world, tls=client_of(broker.settings))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def stops(self) -> None:
        """Inform the master that this broker stops."""
        if self.broker_address:
            await tell_stop(self._client, self.broker_address, self._broker.registration.broker_id)

    def learn(self, broker_address: str, ha_address: str) -> bool:
        """Take what a name server tells. Return whether the HA address is another one than before."""
        other = ha_address != self.ha_address
        self.broker_address, self.ha_address = broker_address, ha_address
        return other

    def problem(self, address: str, peer: str) -> str:
        """Return why the HA connection to *address*, in fact to *peer*, is not one to this master; empty if it may be.

        Nothing is known without a name server that tells a master, and nothing about names instead of IP addresses.
        """
        if not self.ha_address or self.ha_address in (address, peer):
            return ""
        try:
            (host, port), (peer_host, peer_port) = parse_address(self.ha_address), parse_address(peer)
            hosts = [host, parse_address(self.broker_address)[0]]
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
            Refused: it has another one.
        """
        master, settings = self.broker_address, self._broker.settings
        if not master or master == self._same_files or settings.text("store") != "mmap":
            return
        try:
            lines = await settings_lines(self._client, master, RequestCode.GET_BROKER_CONFIG, CALL_S)
        except BrokerRefused:
            lines = []
        except GantryError as error:
            log.info("the settings of the master are not known: %s", error)
            return
        its, own = settings_in(lines).get(FILE_SIZE, ""), settings.number(FILE_SIZE)
        if its.isdigit() and int(its) != own:
            raise Refused(
                f"its log files have {its} bytes, those here {own}: set {FILE_SIZE}={its} here too, and start this "
                "slave with an empty store folder"
            )
        self._same_files = master


def _same_host(told: str, peer: str) -> bool:
    """Return whether *told* may be the IP address *peer*."""
    try:
        return ipaddress.ip_address(told) == ipaddress.ip_address(peer)
    except ValueError:
        return True  # a name
