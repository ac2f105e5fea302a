"""How this broker proves to etcd who it is, and etcd to this broker: settings and their files.

etcdCaPath                      TLS; etcd's certificate must be signed by one of these authorities
etcdCertPath, etcdKeyPath       this broker's certificate, for an etcd with client-cert-auth
etcdUser, etcdPassword(Path)    etcd's own authentication
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gantrymq.errors import ConfigError
from gantrymq.plugin.settings import Settings
from gantrymq.plugin.world import FileReader
from gantrymq_replication.election.etcd_client import EtcdClientSettings

_OTHERS: Final = 0o007
_LARGEST: Final = 1 << 20
_LONGEST_PASSWORD: Final = 4096


def etcd_access(settings: Settings, files: FileReader, endpoints: tuple[str, ...]) -> EtcdClientSettings:
    """Read the settings and their files.

    Raises:
        ConfigError: they contradict each other, or a file cannot be read.
    """
    user, ca, certificate, key = (
        settings.text(each).strip() for each in ("etcdUser", "etcdCaPath", "etcdCertPath", "etcdKeyPath")
    )
    if key and not certificate:
        raise ConfigError("etcdKeyPath without etcdCertPath: set the certificate of this key, too")
    if certificate and not ca:
        raise ConfigError(
            "etcdCertPath without etcdCaPath: set the file of the authorities that sign etcd's certificates; without "
            "it etcd is reached without TLS"
        )
    chain = _pem(files, "etcdCertPath", certificate, "CERTIFICATE")
    return EtcdClientSettings(
        endpoints=endpoints,
        user=user,
        password=_password(settings, files, user),
        tls=bool(ca),
        ca=_pem(files, "etcdCaPath", ca, "CERTIFICATE"),
        certificate=chain,
        key=_pem(files, "etcdKeyPath", key, "PRIVATE KEY") if key else _key_of(chain),
    )


def _key_of(chain: bytes | None) -> bytes | None:
    if chain is not None and b"PRIVATE KEY-----" not in chain:
        raise ConfigError("etcdCertPath has no private key: set etcdKeyPath")
    return chain


def _password(settings: Settings, files: FileReader, user: str) -> str:
    password, path = settings.text("etcdPassword"), settings.text("etcdPasswordPath").strip()
    if password and path:
        raise ConfigError("etcdPassword and etcdPasswordPath are both set: choose one of them")
    if (password or path) and not user:
        raise ConfigError(f"{'etcdPassword' if password else 'etcdPasswordPath'} without etcdUser: set the user, too")
    if user and not (password or path):
        raise ConfigError(f"etcdUser={user} without a password: set etcdPasswordPath, or etcdPassword")
    if not path:
        return password
    status = files.stat(Path(path))
    if status is not None and status.mode & _OTHERS:
        raise ConfigError(
            f"etcdPasswordPath: other users of this machine may read or change {path} (mode {status.mode:04o}); run: "
            f"chmod o= {path}"
        )
    try:
        found = _read(files, "etcdPasswordPath", path).decode().strip()
    except UnicodeDecodeError:
        found = ""
    if not found or len(found) > _LONGEST_PASSWORD or not found.isprintable():
        raise ConfigError(f"etcdPasswordPath: {path} must have one line with the password of {user}")
    return found


def _pem(files: FileReader, key: str, path: str, what: str) -> bytes | None:
    if not path:
        return None
    found = _read(files, key, path)
    if b"-----BEGIN " not in found or what.encode() + b"-----" not in found:
        raise ConfigError(f"{key}: {path} has no {what.lower()} in PEM")
    return found


def _read(files: FileReader, key: str, path: str) -> bytes:
    status = files.stat(Path(path))
    if status is None:
        raise ConfigError(f"{key}: there is no file {path}")
    if status.is_dir or status.size > _LARGEST:
        raise ConfigError(f"{key}: {path} is {'a folder' if status.is_dir else f'larger than {_LARGEST} bytes'}")
    try:
        return files.read(Path(path))
    except OSError as error:
        raise ConfigError(f"{key}: {path} cannot be read: {error.strerror or error}") from error
