"""A budget of descriptors for disk queues: when it is used up, the queue unused for longest closes its files.

`ulimit -n` may be as low as 256 while thousands of disk queues are open, each with one file to read and one to write. A
queue that opens a file registers here; beyond the limit the oldest holder closes files that it can open again. No file
is closed before it is synced.
"""

from typing import Protocol

from queue_engine.vocabulary.descriptor_shares import current_limit, files_share


class DescriptorHolder(Protocol):
    """Holds descriptors of files that it can open again."""

    def release_descriptors(self, *, is_forced: bool = False) -> bool:
        """Close the descriptors; returns whether none is left. An unsynced file stays open, unless forced: then it is
        synced first, in this thread."""
        ...


class DescriptorBudget:
    """The holders of descriptors, at most `holder_max` at a time. Belongs to the engine's thread."""

    def __init__(self, holder_max: int | None = None) -> None:
        """holder_max: by default half the disk queues' share, since each holder has two descriptors."""
        if holder_max is None:
            holder_max = files_share(current_limit()) // 2
        self.holder_max = holder_max
        self._holders: dict[DescriptorHolder, None] = {}  # in the order of their last opening
        self._remaining: list[DescriptorHolder] = []  # of the pass of `close_idle` under way

    def opens(self, holder: DescriptorHolder) -> None:
        """`holder` is about to open a file: make room for it."""
        self._holders.pop(holder, None)
        while len(self._holders) >= self.holder_max:
            # The four oldest first: one of them may have no unsynced file. Else the oldest is forced.
            for candidate in list(self._holders)[:4]:
                if candidate.release_descriptors():
                    del self._holders[candidate]
                    break
            else:
                oldest = next(iter(self._holders))
                oldest.release_descriptors(is_forced=True)
                del self._holders[oldest]
        self._holders[holder] = None

    def forget(self, holder: DescriptorHolder) -> None:
        """`holder` has closed everything for good."""
        self._holders.pop(holder, None)

    def release_all(self) -> None:
        """Close all files that can be opened again, since the process has no descriptor left."""
        for holder in list(self._holders):
            if holder.release_descriptors():
                del self._holders[holder]

    def begin_idle_pass(self) -> None:
        """Begin a pass: the next calls of `close_idle` go through all present holders."""
        self._remaining = list(self._holders)

    def close_idle(self, count_max: int) -> None:
        """Have the next `count_max` holders of the pass close their files. Files in use are opened again soon, unused
        ones stay closed."""
        batch, self._remaining = self._remaining[:count_max], self._remaining[count_max:]
        for holder in batch:
            if holder in self._holders and holder.release_descriptors():
                del self._holders[holder]
