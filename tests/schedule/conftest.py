import sys
from pathlib import Path

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
if str(Path(__file__).parent) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parent))
