"""Runs `node/driver.js` on `ali-ons`."""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from harness.client_driver import ClientDriver
from harness.peers import used
from harness.tools import HERE, cache, filling, require

SOURCE = HERE / "node"
INSTALL_S = 300.0


class NodeDriver(ClientDriver):
    """Starts `node/driver.js`. The arguments are those of ClientDriver."""

    def __init__(self, scratch: Path, namesrv: str, environ: Mapping[str, str] | None = None) -> None:
        super().__init__(scratch, namesrv, "node-", environ)
        used(f"ali-ons {_version()}")
        self._folder = install(SOURCE)

    def program(self, command: str, home: Path) -> list[str]:
        return ["node", str(self._folder / "driver.js")]


def _version() -> str:
    """Return the required version, such as 3.12."""
    asked = json.loads((SOURCE / "package.json").read_text())["dependencies"]["ali-ons"]
    return ".".join(str(asked).lstrip("~^").split(".")[:2])


def install(source: Path) -> Path:
    """Copy the programs in *source* into the cache, install their packages there, and return that folder."""
    require("node", "npm")
    files = [source / "package.json", *sorted(source.glob("*.js"))]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    target = cache() / f"node-{digest}"
    with filling(target) as folder:
        if folder is not None:
            for file in files:
                shutil.copy(file, folder)
            command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"npm ended with {done.returncode}: {(done.stdout + done.stderr)[-3000:]}")
    return target
