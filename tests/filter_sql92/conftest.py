"""Makes modules of this folder and `sql92_golden` importable in every import mode of pytest."""

import sys
from pathlib import Path

HERE = Path(__file__).parent

for folder in (HERE, HERE.parent / "golden"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
