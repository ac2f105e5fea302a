"""The table of the client's layers in docs/internals/architecture.md matches the import contract."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_the_table_lists_the_layers_of_the_contract():
    chapter = re.search(
        r"^## \d+\. The client\n(.*?)^## ", (ROOT / "docs/internals/architecture.md").read_text(), re.M | re.S
    )[1]
    rows = [re.findall(r"`(\w+)`", line.split(" | ")[0]) for line in chapter.splitlines() if line.startswith("| `")]
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["gantrymq.client"])
    assert rows == [layer.split(" | ") for layer in layers]
