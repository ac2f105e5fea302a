"""Certificates for tests of TLS, made with the openssl command."""

import subprocess
from pathlib import Path

NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-days", "2")


def make_certificate(folder: Path, name: str, subject: str = "", authority: str = "", names: str = "") -> str:
    """Make ``name.pem`` and ``name.key`` in *folder* and return the path of the first one.

    Args:
        subject: as openssl reads it; empty for ``/CN=name``.
        authority: name of the certificate that signs it; empty for itself.
        names: further names of the subject, as openssl reads them, such as ``IP:127.0.0.1``.
    """
    signed = ("-CA", f"{authority}.pem", "-CAkey", f"{authority}.key") if authority else ()
    files = ("-keyout", f"{name}.key", "-out", f"{name}.pem")
    more = ("-addext", f"subjectAltName={names}") if names else ()
    command = ["openssl", "req", "-x509", *signed, *more, *NEW_KEY, "-subj", subject or f"/CN={name}", *files]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return str(folder / f"{name}.pem")
