"""Duration of a scenario, and the seed of its choices.

GANTRYMQ_CHAOS       factor for the number of rounds; 1 by default, one or two minutes for each scenario
GANTRYMQ_CHAOS_SEED  seed of every choice
"""

import os

TIMES = int(os.environ.get("GANTRYMQ_CHAOS", "1"))
SEED = os.environ.get("GANTRYMQ_CHAOS_SEED", "180000")


def rounds(usual: int) -> int:
    """*usual* rounds, times GANTRYMQ_CHAOS."""
    return usual * TIMES
