"""The index as store and queries see it: started, stopped, asked to catch up, made durable by checkpoints.

A stop indexes what was published and leaves the rest to the last checkpoint. A query that comes while keys wait in
memory has them indexed first; while the index lags behind the log it waits for what is soon read.
"""

from __future__ import annotations

from gantrymq_storage_mmap.index.folder import LoadedIndex
from gantrymq_storage_mmap.index.following import RETRY_S, IndexFollower
from gantrymq_storage_mmap.index.mark import IndexMark

__all__ = ["IndexWriter"]

CATCH_UP_S = 10.0  # that a stop waits for an index that lags behind
QUERY_STEPS = 16  # that a query does at once, to see what was sent a moment ago
SOON_BYTES = 8 * 1024 * 1024  # of log that a query waits for


class IndexWriter(IndexFollower):
    """Index files, newest last, and what is on its way into them. All methods belong to the event loop."""

    # --- start and stop ---------------------------------------------------------------------------------------------

    def hold(self, loaded: LoadedIndex) -> None:
        """Own the files that were *loaded*: `close` closes them."""
        self._held.hold(loaded)

    def start(self, loaded: LoadedIndex, published: int) -> None:
        """Go on from what was *loaded*; records before *published* may be indexed."""
        self.hold(loaded)
        self._published = published
        self._running = self.enabled
        self._behind = self.enabled and self.place.log_offset < published
        if self._behind:
            self._arm(0.0)
        if self._unsure:
            self._ready()

    async def stop(self) -> None:
        """Index what is published; a checkpoint makes it durable.

        Where that takes longer than `CATCH_UP_S`, the next start reads the log on.
        """
        if self._running:
            await self._catch_up_for(CATCH_UP_S)
            await self._until_ready()
            self.halt()
            while self._waiting and not self._behind:
                self._index_waiting()
        await self.quiet()

    async def _catch_up_for(self, seconds: float) -> None:
        """Go on reading the log, but no longer than that."""
        until = self._clock.monotonic() + seconds
        limit = self._clock.call_later(seconds, self._wake)
        while self._behind and not self.failure and self._clock.monotonic() < until:
            await self._wait()
        limit.cancel()
        if self._behind:
            self._tell(f"the index lags {self.lag} bytes behind the log at this stop; the next start catches up")

    async def quiet(self) -> None:
        """Wait until no thread is at work for the index."""
        while self.busy or self._held.busy or self._held.readers:
            await self._clock.sleep(0.001)

    def halt(self) -> None:
        """End the background work and leave everything as it is."""
        self._running = False
        self._disarm()
        self._wake()

    def close(self) -> None:
        """Close every file."""
        self._held.close()

    # --- checkpoints ------------------------------------------------------------------------------------------------

    def begin_checkpoint(self) -> IndexMark:
        """What is not durable, as it is now; entries may be added while a thread writes and syncs it.

        Budget: 10 ms when every slot of a file of Java's default size has changed. One at a time.
        """
        return self._held.begin_checkpoint()

    def checkpointed(self, mark: IndexMark) -> None:
        """All of *mark* was written and synced."""
        self._undurable = self._undurable and not mark.parts
        self._held.checkpointed(mark)

    def checkpoint_failed(self, mark: IndexMark) -> None:
        """*mark* could not be made durable: what it holds, and what came since, is made again from the log.

        A mark that was not even written is no harm: nothing was synced in vain, the next one has it all.
        """
        if not mark.written:
            self._held.give_back(mark)
            return
        count = self._held.drop(mark)
        if count:
            if not self._undurable:
                files, them = ("1 index file", "it") if count == 1 else (f"{count} index files", "them")
                self._tell(f"{files} could not be made durable; what was in {them} is built again from the log")
            self._undurable = True
            self._fall_behind()
            self._arm(RETRY_S)

    # --- queries ----------------------------------------------------------------------------------------------------

    async def catch_up(self) -> bool:
        """Index what waits in memory, and wait for a log that is soon read; True when a query now sees everything."""
        while self._running and self._behind and not self.failure and self.lag <= SOON_BYTES:
            await self._wait()
        await self._until_ready()
        for _ in range(QUERY_STEPS):
            if self._behind or not self._waiting:
                break
            self._index_waiting()
        return self.up_to_date

    async def _until_ready(self) -> None:
        """Wait until what waits can be added, or is left to be read from the log, and no slot leads astray."""
        while self._running and self._waiting and not self._ready():
            await self._wait()
        while self._loading and self._unsure:
            await self._wait()

    def reading(self, more: int) -> None:
        """A query begins (1) or ends (-1) to read files in a thread; removed ones are closed when none does."""
        self._held.reading(more)

    # --- room -------------------------------------------------------------------------------------------------------

    def taken_bytes(self) -> int:
        """What the files take of the disk, at most."""
        return sum(file.taken_bytes for file in self.files)

    def delete_before(self, log_offset: int) -> int:
        """Remove files that know no message at or behind *log_offset*, in a thread; never the newest one.

        Returns:
            How many are no longer part of the index.
        """
        return self._held.delete_before(log_offset)
