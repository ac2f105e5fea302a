"""Makes the plugin importable."""

import sys
from importlib.util import find_spec
from pathlib import Path

if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

NEEDED = ("gantrymq_nameserver", "gantrymq_storage_memory", "gantrymq_filter_tag", "gantrymq_pop", "gantrymq_schedule")
collect_ignore_glob = [] if all(map(find_spec, NEEDED)) else ["test_*.py"]
