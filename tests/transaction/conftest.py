"""Golden stores and frames, and a broker with the plugin in a simulated world."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "golden", HERE.parent / "core" / "broker"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
