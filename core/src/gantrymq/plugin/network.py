"""Servers and clients of RocketMQ's protocol: listeners, limits, admission, TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq.remoting.admission import ADMISSION_SETTINGS as ADMISSION_SETTINGS
    from gantrymq.remoting.admission import admission_of as admission_of
    from gantrymq.remoting.busy_poll import BusyPoll as BusyPoll
    from gantrymq.remoting.certificates import Certificates as Certificates
    from gantrymq.remoting.client import RemotingClient as RemotingClient
    from gantrymq.remoting.client import ask_route as ask_route
    from gantrymq.remoting.inner_client import INNER_CREDENTIALS as INNER_CREDENTIALS
    from gantrymq.remoting.inner_client import inner_client as inner_client
    from gantrymq.remoting.inner_client import inner_credentials as inner_credentials
    from gantrymq.remoting.inner_client import refused as refused
    from gantrymq.remoting.limits import Limits as Limits
    from gantrymq.remoting.limits import connections_within as connections_within
    from gantrymq.remoting.listeners import DEFAULT_LISTENER as DEFAULT_LISTENER
    from gantrymq.remoting.listeners import LISTENERS_SETTING as LISTENERS_SETTING
    from gantrymq.remoting.listeners import addresses_of_text as addresses_of_text
    from gantrymq.remoting.listeners import listeners_of as listeners_of
    from gantrymq.remoting.preamble import ProtocolKind as ProtocolKind
    from gantrymq.remoting.preamble import sniff as sniff
    from gantrymq.remoting.server import RemotingServer as RemotingServer
    from gantrymq.remoting.server import open_listeners as open_listeners
    from gantrymq.remoting.signatures import is_access_refusal as is_access_refusal
    from gantrymq.remoting.tls_contexts import TlsClient as TlsClient
    from gantrymq.remoting.tls_contexts import load_chain as load_chain
    from gantrymq.remoting.tls_contexts import server_context as server_context
    from gantrymq.remoting.tls_settings import client_of as client_of
    from gantrymq.remoting.tls_settings import tls_client as tls_client
    from gantrymq.remoting.tls_transport import TlsTransport as TlsTransport
else:
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq.remoting.admission": "ADMISSION_SETTINGS admission_of",
            "gantrymq.remoting.busy_poll": "BusyPoll",
            "gantrymq.remoting.certificates": "Certificates",
            "gantrymq.remoting.client": "RemotingClient ask_route",
            "gantrymq.remoting.inner_client": "INNER_CREDENTIALS inner_client inner_credentials refused",
            "gantrymq.remoting.limits": "Limits connections_within",
            "gantrymq.remoting.listeners": "DEFAULT_LISTENER LISTENERS_SETTING addresses_of_text listeners_of",
            "gantrymq.remoting.preamble": "ProtocolKind sniff",
            "gantrymq.remoting.signatures": "is_access_refusal",
            "gantrymq.remoting.server": "RemotingServer open_listeners",
            "gantrymq.remoting.tls_contexts": "TlsClient load_chain server_context",
            "gantrymq.remoting.tls_settings": "client_of tls_client",
            "gantrymq.remoting.tls_transport": "TlsTransport",
        },
    )
