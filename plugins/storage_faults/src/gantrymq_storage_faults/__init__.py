"""Simulated file faults for tests: crashes, power cuts, full disks, errors, bit flips and slow calls, from a seed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gantrymq_storage_faults.calls import Crashed as Crashed
    from gantrymq_storage_faults.files import FaultyFiles as FaultyFiles
    from gantrymq_storage_faults.files import flip_bit as flip_bit
    from gantrymq_storage_faults.machine import Machine as Machine
    from gantrymq_storage_faults.machine import PowerCut as PowerCut
    from gantrymq_storage_faults.pages import PAGE_BYTES as PAGE_BYTES
    from gantrymq_storage_faults.plan import CHANGES as CHANGES
    from gantrymq_storage_faults.plan import IMPLICIT_OPERATIONS as IMPLICIT_OPERATIONS
    from gantrymq_storage_faults.plan import READS as READS
    from gantrymq_storage_faults.plan import Failure as Failure
    from gantrymq_storage_faults.plan import FaultPlan as FaultPlan
    from gantrymq_storage_faults.plan import Slowness as Slowness
    from gantrymq_storage_faults.raw_log import FaultyRawLog as FaultyRawLog
    from gantrymq_storage_faults.workers import LateWorkers as LateWorkers
else:  # the entry point `gantrymq_storage_faults.plugin` imports this package in every server and command
    from gantrymq.plugin.lazy import lazy_exports

    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "gantrymq_storage_faults.calls": "Crashed",
            "gantrymq_storage_faults.files": "FaultyFiles flip_bit",
            "gantrymq_storage_faults.machine": "Machine PowerCut",
            "gantrymq_storage_faults.pages": "PAGE_BYTES",
            "gantrymq_storage_faults.plan": "CHANGES IMPLICIT_OPERATIONS READS Failure FaultPlan Slowness",
            "gantrymq_storage_faults.raw_log": "FaultyRawLog",
            "gantrymq_storage_faults.workers": "LateWorkers",
        },
    )
