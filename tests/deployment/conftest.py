"""Makes this folder's modules importable. Without the plugins of a cluster, or on another system, nothing runs."""

import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.with_name("interop")):  # for its harness
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

PLUGINS = ("admin", "console", "metrics", "nameserver", "replication", "storage_mmap")
ALL_HERE = all(find_spec(f"gantrymq_{name}") for name in PLUGINS) and sys.platform == "linux"
collect_ignore_glob = [] if ALL_HERE else ["test_*.py"]
