"""A simulated broker with lite topics."""

import sys
from pathlib import Path

import pytest

# These folders have no __init__.py (pytest runs in importlib mode): their helpers are found by path.
for folder in (Path(__file__).parent, Path(__file__).parents[1] / "support"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture
def lite(gantrymq_simulation):
    """Run ``work(served)`` with a simulated broker that has the parent topic P and the group G."""
    from lite_broker import SETTINGS, LiteBroker

    def run(work, settings=(), **more):
        async def main(cluster):
            return await work(LiteBroker(cluster))

        return gantrymq_simulation(main, settings={**SETTINGS, **dict(settings)}, **more)

    return run
