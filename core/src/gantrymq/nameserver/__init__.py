"""The name server: brokers register, clients ask where topics are.

`routes`, `registration`, `unregistration` and `topics` are plain functions over `tables.RouteTables`, with time as an
argument; `service` answers requests without a socket; `server` is the whole.
"""

from gantrymq.nameserver.server import NameServer
from gantrymq.nameserver.settings import name_server_settings

__all__ = ["NameServer", "name_server_settings"]
