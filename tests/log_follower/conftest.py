"""Makes the plugin importable, and the broker processes of the durability tests."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent

for folder in (HERE, HERE.parent / "durability"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

NEEDED = ("gantrymq_nameserver", "gantrymq_storage_mmap", "gantrymq_schedule", "gantrymq_transaction")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]
