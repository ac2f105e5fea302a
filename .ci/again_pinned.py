"""Run the environments that failed with the newest releases again with pinned ones, and name the cause.

    python .ci/again_pinned.py .tox/ci/bin/tox .tox

`.ci/run --newest` calls it after a failure. Environments that pass with the versions of .ci/constraints.txt failed
because of a new release; the packages that differ are printed. The exit code is 0 if all of them pass, 1 otherwise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import check_groups
import constraints


def main() -> int:
    tox, work_dir = sys.argv[1:]
    failed = failed_environments(Path(work_dir))
    if not failed:
        print("no environment failed", file=sys.stderr)
        return 1
    print(f"again with the versions of .ci/constraints.txt: {', '.join(failed)}", flush=True)
    environ = {name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"}
    ended = subprocess.run([tox, "run", "--recreate", "-e", ",".join(failed)], env=environ).returncode
    pins = constraints.read(constraints.FILE.read_text())
    for name, result in failed.items():
        print(f"{name} failed with {', '.join(differences(result, pins)) or 'the pinned versions'}", file=sys.stderr)
    if ended:
        print("no new release is the only cause: environments fail with the pinned versions too", file=sys.stderr)
        return 1
    print("a new release of a dependency is the cause: with the pinned versions they pass", file=sys.stderr)
    return 0


def failed_environments(work_dir: Path) -> dict[str, dict[str, Any]]:
    """Return tox's results of the environments with a command that failed, by name."""
    found = {}
    for name in check_groups.RESULTS:
        if (path := work_dir / name).exists():
            for environment, result in json.loads(path.read_text()).get("testenvs", {}).items():
                if any(command["retcode"] for command in [*result.get("setup", []), *result.get("test", [])]):
                    found[environment] = result
    return found


def differences(result: dict[str, Any], pins: list[constraints.Pin]) -> list[str]:
    """Return the packages of an environment with another version than pinned, such as "numpy 2.5.5 (2.5.4)"."""
    python = ".".join(str(part) for part in result.get("python", {}).get("version_info", [])[:2])
    pinned = {pin.name: pin.version for pin in pins if python in pin.pythons}
    installed = dict(
        constraints.normalized(*each.split("==")) for each in result.get("installed_packages", []) if "==" in each
    )
    return [
        f"{name} {version} ({pinned[name]})"
        for name, version in sorted(installed.items())
        if name in pinned and pinned[name] != version
    ]


if __name__ == "__main__":
    sys.exit(main())
