"""The requests of a page, below one deadline."""

import asyncio
import gc
import warnings

from gantrymq.world.real import real_world
from gantrymq_admin.asking import Asking


def test_a_caller_that_is_cancelled_at_once_leaves_no_coroutine_unawaited():
    async def answer():
        return 1

    async def main():
        asking = Asking(real_world().clock, 3)
        both = asyncio.gather(asking.all({"a": answer()}), asking.all({"b": answer()}))
        both.cancel()
        await asyncio.wait([both])

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        asyncio.run(main())
        gc.collect()
    assert warned == []
