"""Self-signed certificate for tests, used with tls.test.mode.enable.

Clients cannot verify it, so it protects against eavesdropping only. It needs the library ``cryptography``, which the
extra ``gantrymq[tls]`` installs and which is imported for the first TLS client.

Source: apache/rocketmq remoting/.../netty/TlsHelper.java (SelfSignedCertificate of Netty in test mode).
"""

from __future__ import annotations

import datetime
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["available", "write_self_signed"]

NAME = "gantrymq-test"
VALID = datetime.timedelta(days=365)


def available() -> bool:
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
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + VALID)
        .sign(key, hashes.SHA256())
    )
    folder = tempfile.TemporaryDirectory(prefix="gantrymq-tls-")
    pem = Path(folder.name) / "cert.pem"
    pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return folder
