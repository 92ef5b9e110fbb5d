"""Message ids of `diskqueue` topics: NSQ's, 16 hex characters, rising within a topic.

    | milliseconds since NSQ's epoch (units of 2^20 ns) 42 bit | node 10 bit | sequence 12 bit |

Unlike nsqd's generator this one never refuses: when a unit's 4,096 numbers are used up, or the wall clock went
back, it goes on from the last id it gave, ahead of the clock if it must be.
"""

from queue_engine.vocabulary.clock import Clock

_EPOCH_UNITS = 1_288_834_974_288
_SEQUENCES = 4096
_SUFFIXES = [b"%03x" % sequence for sequence in range(_SEQUENCES)]


class MessageIds:
    """Gives out ids for one topic."""

    def __init__(self, clock: Clock, node_id: int) -> None:
        assert 0 <= node_id < 1024, node_id
        self._clock = clock
        self._node_id = node_id
        self._unit = 0
        self._sequence = 0  # the next one within the unit

    def take(self, count: int) -> list[bytes]:
        """The next `count` ids, rising, none ever given before."""
        unit = (self._clock.time_ns() >> 20) - _EPOCH_UNITS
        if unit > self._unit:
            self._unit = unit
            self._sequence = 0
        sequence = self._sequence
        if sequence + count <= _SEQUENCES:
            self._sequence = sequence + count
            prefix = b"%013x" % (self._unit << 10 | self._node_id)
            if count == 1:
                return [prefix + _SUFFIXES[sequence]]
            return [prefix + suffix for suffix in _SUFFIXES[sequence : sequence + count]]
        ids: list[bytes] = []
        while count:
            if self._sequence == _SEQUENCES:
                self._unit += 1
                self._sequence = 0
            piece = min(count, _SEQUENCES - self._sequence)
            prefix = b"%013x" % (self._unit << 10 | self._node_id)
            ids += [prefix + suffix for suffix in _SUFFIXES[self._sequence : self._sequence + piece]]
            self._sequence += piece
            count -= piece
        return ids
