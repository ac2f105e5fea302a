"""What an error of etcd or of gRPC means, in a sentence that names the setting to change."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["explain"]

CONNECTING: Final = re.compile(r"^failed to connect to all addresses; last error: \w+: (?:ipv[46]:\S+: )?")
MEANINGS: Final[tuple[tuple[str, str], ...]] = (
    ("Connection refused", "nothing listens there"),
    ("DNS resolution failed", "its name is not known"),
    ("Deadline Exceeded", "it did not answer in time"),
    ("CERTIFICATE_VERIFY_FAILED", "its certificate is not signed by an authority in etcdCaPath"),
    ("Hostname Verification", "its certificate is for other names than the one in etcdEndpoints"),
    ("etcdserver: no leader", "it knows no leader: more than half of etcd's members must be alive"),
    ("etcdserver: request timed out", "it has no majority: more than half of etcd's members must be alive"),
    ("etcdserver: authentication failed", "its name or password is wrong; see etcdUser and etcdPasswordPath"),
    ("etcdserver: user name is empty", "it asks for a user: set etcdUser and etcdPasswordPath"),
    ("etcdserver: authentication is not enabled", "it has no users: remove etcdUser, or run 'etcdctl auth enable'"),
)
WITH_TLS: Final[tuple[tuple[str, str], ...]] = (
    ("Unwrap failed", "it refuses this broker's certificate: see etcdCertPath"),
    ("Handshake read failed", "it closed the connection during the TLS handshake; if it has no TLS, remove etcdCaPath"),
    ("WRONG_VERSION_NUMBER", "it has no TLS: remove etcdCaPath"),
)
WITHOUT_TLS: Final[tuple[tuple[str, str], ...]] = (
    ("Socket closed", "it closed the connection; if it has TLS, set etcdCaPath"),
)


def explain(details: str, *, tls: bool) -> str:
    """Return the meaning of gRPC's *details*; unknown ones without the words that all of them begin with."""
    for text, meaning in (*MEANINGS, *(WITH_TLS if tls else WITHOUT_TLS)):
        if text in details:
            return meaning
    return CONNECTING.sub("", details)
