"""Runs the program in `go` on `rocketmq-client-go`."""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.client_driver import ClientDriver
from harness.peers import used
from harness.tools import HERE, cache, filling

SOURCE = HERE / "go"
USUAL_PLACE = Path("/usr/local/go/bin/go")  # the installation folder of Go's own archives
BUILD_S = 600.0


class GoDriver(ClientDriver):
    """Starts the program of `go`. The arguments are those of ClientDriver."""

    def __init__(self, scratch: Path, namesrv: str, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(scratch, namesrv, "go-", environ)
        used(f"Go {_version()}")
        self._driver = build(SOURCE)

    def program(self, command: str, home: Path) -> list[Path]:
        return [self._driver]


def _version() -> str:
    """Return the required version of the client, such as 2.1.2."""
    found = re.search(r"rocketmq-client-go/v2 v(\S+)", (SOURCE / "go.mod").read_text())
    assert found is not None
    return found[1]


def build(source: Path) -> Path:
    """Compile the program in *source* into the cache, with the modules that its go.mod names."""
    files = sorted([*source.glob("*.go"), source / "go.mod", source / "go.sum"])
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = cache() / f"go-{digest}"
    with filling(target) as folder:
        if folder is not None:
            command = [_compiler(), "build", "-o", folder / "driver", "."]
            done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=BUILD_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"go build ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return target / "driver"


def _compiler() -> str:
    """Return the path of the program `go`. Skip the test if there is none."""
    found = shutil.which("go") or (str(USUAL_PLACE) if USUAL_PLACE.exists() else None)
    if found is None:
        pytest.skip("the tests of the Go client need `go` (1.19 or newer) on the PATH")
    return found
