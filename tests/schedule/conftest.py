import sys
from importlib.util import find_spec
from pathlib import Path

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))

if any(find_spec(f"gantrymq_{each}") is None for each in ("storage_memory", "storage_mmap", "filter_tag")):
    collect_ignore_glob = ["test_levels.py", "test_pending.py", "test_resume.py", "test_timer_*.py"]
