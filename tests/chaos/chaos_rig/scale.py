"""How long a scenario runs, and what its choices are made from.

GANTRYMQ_CHAOS       times as many rounds as usual; 1 by default, which takes each scenario one or two minutes
GANTRYMQ_CHAOS_SEED  what every choice is made from
"""

import os

TIMES = int(os.environ.get("GANTRYMQ_CHAOS", "1"))
SEED = os.environ.get("GANTRYMQ_CHAOS_SEED", "180000")


def rounds(usual: int) -> int:
    """*usual* rounds, times GANTRYMQ_CHAOS."""
    return usual * TIMES
