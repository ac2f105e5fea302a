"""Makes the plugin importable, and the requests of the broker's tests."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "core" / "broker"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

NEEDED = ("gantrymq_nameserver", "gantrymq_storage_memory", "gantrymq_filter_tag", "gantrymq_pop", "gantrymq_schedule")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]
