"""Files that crash, lose power, run full, fail, flip bits and dawdle, by a seed. For tests of whatever writes files."""

from gantrymq_storage_faults.calls import Crashed
from gantrymq_storage_faults.files import FaultyFiles, PowerCut, flip_bit
from gantrymq_storage_faults.pages import PAGE_BYTES
from gantrymq_storage_faults.plan import CHANGES, READS, Failure, Plan, Slowness
from gantrymq_storage_faults.workers import LateWorkers

__all__ = [
    "CHANGES",
    "PAGE_BYTES",
    "READS",
    "Crashed",
    "Failure",
    "FaultyFiles",
    "LateWorkers",
    "Plan",
    "PowerCut",
    "Slowness",
    "flip_bit",
]
