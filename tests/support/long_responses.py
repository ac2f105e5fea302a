"""A counter of the long responses that are written at the same time."""

from gantrymq.remoting import responses


class WrittenTogether:
    """Counts calls of `dumps_in_slices`: *most* is the largest number of them at one time."""

    def __init__(self, monkeypatch, clock=None):
        """*clock*: of a simulated world, where each response then takes 0.1 s."""
        self.most = self._running = 0
        self._clock = clock
        self._write = responses.dumps_in_slices
        monkeypatch.setattr(responses, "dumps_in_slices", self._counted)

    async def _counted(self, *args, **more):
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            if self._clock is not None:
                await self._clock.sleep(0.1)
            return await self._write(*args, **more)
        finally:
            self._running -= 1
