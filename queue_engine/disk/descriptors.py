"""Descriptors are few and queues are many: those that have waited longest give theirs back.

`ulimit -n` may be as low as 256 while thousands of disk queues are alive, each wanting one file to read and one
to write. Whoever opens a file registers here; beyond a limit the oldest holder is asked to close what it can
open again. Nothing is closed before it is synced.
"""

from typing import Protocol

from queue_engine.vocabulary.descriptor_shares import current_limit, files_share


class DescriptorHolder(Protocol):
    """What holds descriptors that it can open again."""

    def release_descriptors(self, *, is_forced: bool = False) -> bool:
        """Close them; returns whether none is left. An unsynced one stays open, unless forced: then it is
        synced first, in this thread."""
        ...


class DescriptorBudget:
    """Who holds descriptors, at most `holder_max` at a time; belongs to the engine's thread."""

    def __init__(self, holder_max: int | None = None) -> None:
        """holder_max: by default half the disk queues' share, since each holder has two descriptors."""
        if holder_max is None:
            holder_max = files_share(current_limit()) // 2
        self.holder_max = holder_max
        self._holders: dict[DescriptorHolder, None] = {}  # in the order of their last opening
        self._unasked: list[DescriptorHolder] = []  # of the pass of `close_idle` under way

    def opens(self, holder: DescriptorHolder) -> None:
        """`holder` is about to open a file: make room for it."""
        self._holders.pop(holder, None)
        while len(self._holders) >= self.holder_max:
            # A few are asked kindly, so that one unsynced file does not stop everybody; then one has to.
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
        """The process has no descriptor left: close all that can be opened again."""
        for holder in list(self._holders):
            if holder.release_descriptors():
                del self._holders[holder]

    def begin_idle_pass(self) -> None:
        """Have `close_idle` ask all that hold descriptors now."""
        self._unasked = list(self._holders)

    def close_idle(self, count_max: int) -> None:
        """Let a few holders close what they can open again: what is in use is opened again, what is not stays
        closed."""
        asked, self._unasked = self._unasked[:count_max], self._unasked[count_max:]
        for holder in asked:
            if holder in self._holders and holder.release_descriptors():
                del self._holders[holder]
