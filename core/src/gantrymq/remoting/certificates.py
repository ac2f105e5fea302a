"""The TLS context of a server, made again when its certificate files have changed: a renewal needs no restart.

Besides, the self-signed certificate for tests, used with tls.test.mode.enable. Clients cannot verify it, so it protects
against eavesdropping only. It needs the library ``cryptography``, which the extra ``gantrymq[tls]`` installs and which
is imported for the first TLS client.

Sources: apache/rocketmq broker/.../BrokerController.java (initialRequestPipeline, FileWatchService), which watches the
same three files; remoting/.../netty/TlsHelper.java (SelfSignedCertificate of Netty in test mode).
"""

from __future__ import annotations

import datetime
import logging
import ssl
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gantrymq.errors import ConfigError

if TYPE_CHECKING:
    import tempfile
from gantrymq.world import Clock, FileReader

log = logging.getLogger("gantrymq.remoting")

RECHECK_S: Final = 5.0


class Certificates:
    """Certificate, key and trusted authorities in PEM files."""

    def __init__(
        self, files: FileReader, clock: Clock, paths: Sequence[str], load: Callable[[], ssl.SSLContext]
    ) -> None:
        """Load the files.

        Args:
            files: for the times of changes.
            clock: for `RECHECK_S`.
            paths: the files that *load* reads, the certificate first; empty ones are left out.
            load: reads the files. Raises ConfigError.

        Raises:
            ConfigError: a file cannot be used.
        """
        self._files, self._clock, self._load = files, clock, load
        self._paths = [Path(each) for each in paths if each]
        self._state = self._stat()
        self._checked_s = clock.monotonic()
        self._context = load()

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection. If changed files cannot be used, the old certificate is kept."""
        now_s = self._clock.monotonic()
        if now_s - self._checked_s >= RECHECK_S:
            self._checked_s = now_s
            state = self._stat()
            if state != self._state:
                self._state = state
                try:
                    self._context = self._load()
                    log.info("the certificate %s was read again", self._paths[0])
                except ConfigError as problem:
                    log.error("the old certificate stays in use: %s", problem)
        return self._context

    def _stat(self) -> list[Any]:
        return [self._files.stat(each) for each in self._paths]


_SELF_SIGNED_NAME = "gantrymq-test"
_SELF_SIGNED_VALID = datetime.timedelta(days=365)


def self_signed_available() -> bool:
    """Return whether ``cryptography`` is installed."""
    return find_spec("cryptography") is not None


def write_self_signed(now: datetime.datetime) -> tempfile.TemporaryDirectory[str]:
    """Write certificate and key to ``cert.pem`` in a new temporary folder that only this user may read.

    OpenSSL loads keys from files only. Leaving the context of the returned folder removes it.

    Args:
        now: current time; the certificate is valid from one day before.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _SELF_SIGNED_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _SELF_SIGNED_VALID)
        .sign(key, hashes.SHA256())
    )
    import tempfile  # with bz2, lzma, random and shutil

    folder = tempfile.TemporaryDirectory(prefix="gantrymq-tls-")
    pem = Path(folder.name) / "cert.pem"
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return folder
