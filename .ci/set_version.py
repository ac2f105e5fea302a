"""Set the version of all distributions, and everything that states it.

    python .ci/set_version.py 0.3.0          a release
    python .ci/set_version.py 0.4.0.dev0     the main branch after it

The distributions have one version. Each requires of the others this version or a later one of its series, such as
``gantrymq>=0.3.0,<0.4``, so pip never leaves a plugin beside a core that it was not built for. The requirement of a
development version names one, which is how pip accepts development versions without ``--pre``.

Written are the pyproject files, ``gantrymq.__version__``, the chart with the tag of its image, the template of
``gantrymq plugin new``, and the pages that show a version. Nothing is written if one of these states no version.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import workspace
from workspace import ROOT

VERSION: Final = re.compile(r"(\d+)\.(\d+)\.\d+(\.dev\d+|rc\d+)?")
REQUIREMENT: Final = re.compile(
    r"""(?<=["'`])(gantrymq(?:-[a-z0-9-]+)?(?:\[[a-z0-9,-]+\])?)>=[^"'`,]+,<[^"'`,]+(?=["'`])"""
)
DISTRIBUTION: Final = re.compile(r'(?m)^(version = ")[^"]+(")$')

# File to what states the version in it: before, the version, after.
PLACES: Final[Mapping[str, re.Pattern[str]]] = {
    "core/src/gantrymq/__init__.py": re.compile(r'(__version__ = ")[^"]+(")'),
    "packaging/helm/gantrymq/Chart.yaml": re.compile(r"(?m)^(appVersion: )\S+()$"),
    "docs/operations/running.md": re.compile(r"(?m)^(gantrymq, version )[^;]+(;)"),
}
CHART: Final = "packaging/helm/gantrymq/Chart.yaml"
CHART_VERSION: Final = re.compile(r"(?m)^(version: )\S+()$")  # helm takes SemVer: 0.4.0-dev0
REQUIRING: Final = (
    "plugins/kit/src/gantrymq_kit/projects/templates/both/pyproject.toml.in",
    "docs/plugins/README.md",
    "docs/plugins/api/README.md",
)


def main() -> int:
    if len(sys.argv) != 2 or not VERSION.fullmatch(sys.argv[1]):
        print(__doc__, file=sys.stderr)
        return 2
    texts = with_version(ROOT, sys.argv[1])
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    print(f"{sys.argv[1]}: {len(texts)} files changed; what is installed from this clone is to be installed again")
    return 0


def with_version(root: Path, version: str) -> dict[Path, str]:
    """Return the new text of each file below *root* that states another version than *version*.

    Raises:
        ValueError: a file states no version.
    """
    texts: dict[Path, str] = {}
    for name, pattern in PLACES.items():
        _replace(texts, root / name, pattern, rf"\g<1>{version}\2")
    semver = re.sub(r"\.?(dev|rc)", r"-\1", version)
    _replace(texts, root / CHART, CHART_VERSION, rf"\g<1>{semver}\2")
    wanted = rf"\1{workspace.releases(version)}"
    for each in workspace.read(root).every:
        path = each.folder / "pyproject.toml"
        _replace(texts, path, DISTRIBUTION, rf"\g<1>{version}\2")
        if REQUIREMENT.search(texts[path]):
            _replace(texts, path, REQUIREMENT, wanted)
    for name in REQUIRING:
        _replace(texts, root / name, REQUIREMENT, wanted)
    return {path: text for path, text in texts.items() if text != path.read_text(encoding="utf-8")}


def _replace(texts: dict[Path, str], path: Path, pattern: re.Pattern[str], text: str) -> None:
    before = texts[path] if path in texts else path.read_text(encoding="utf-8")
    texts[path], count = pattern.subn(text, before)
    if not count:
        raise ValueError(f"{path}: expected {pattern.pattern}")


if __name__ == "__main__":
    sys.exit(main())
