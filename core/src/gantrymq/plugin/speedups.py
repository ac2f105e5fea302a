"""The compiled functions of ``gantrymq-speedups``, or None."""

from gantrymq.speedups import compiled as compiled
