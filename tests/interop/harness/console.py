"""`gantrymq console` in a process of its own, and Chromium that looks at it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.gantry_server import GantryServer
from harness.tools import cache, filling, require

AXE = "axe-core@4.14.1"
INSTALL_S = 120.0
# Without the last three, Chromium asks its vendor's servers at each start.
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync"]
CHROMIUMS = ("chromium", "chromium-browser", "google-chrome")


class GantryConsole(GantryServer):
    """A console for the cluster of *namesrv*, without log-in, on a free port."""

    def __init__(self, scratch: Path, namesrv: str, *options: str) -> None:
        state = scratch / "console-state"
        super().__init__(
            "console", scratch, "-n", namesrv, "--listen", "127.0.0.1:0", "--no-login", "--state", str(state), *options
        )

    @property
    def url(self) -> str:
        """Its address, with a slash at the end."""
        return str(self.ready["console"])


@contextmanager
def chromium() -> Iterator[Any]:
    """Yield a Playwright browser. Skips the test if Playwright or Chromium is missing."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = next((found for each in CHROMIUMS if (found := shutil.which(each))), None)
    if program is None:
        pytest.skip("the tests of the console need `chromium` on the PATH")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        yield browser
        browser.close()


def axe_script() -> str:
    """Return the source of axe-core, which checks pages for accessibility."""
    require("npm")
    target = cache() / AXE.replace("@", "-")
    with filling(target) as folder:
        if folder is not None:
            done = subprocess.run(
                ["npm", "pack", AXE], cwd=folder, capture_output=True, text=True, timeout=INSTALL_S, check=False
            )
            if done.returncode != 0:
                raise RuntimeError(f"npm ended with {done.returncode}: {done.stderr[-2000:]}")
            shutil.unpack_archive(next(folder.glob("*.tgz")), folder)
    return (target / "package" / "axe.min.js").read_text()
