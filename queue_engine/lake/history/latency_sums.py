"""Latency histograms, as columns of lists of (bucket b, messages n), added up in columns."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from queue_engine.lake.history.schema import LATENCY
from queue_engine.vocabulary.errors import PipelineError

# More than there are buckets: (row, bucket) is one number.
_BUCKETS = 1 << 16

Numbers = npt.NDArray[np.int64]


def sum_by_bucket(rows: Numbers, buckets: Numbers, counts: Numbers, row_count: int) -> pa.Array:
    """A histogram for each of `row_count` rows: `counts` of equal row and bucket added up, ascending by bucket.

    The three arrays are of one length. Raises PipelineError for a bucket that cannot be.
    """
    if len(buckets) and (buckets.min() < 0 or buckets.max() >= _BUCKETS):
        raise PipelineError(f"latency buckets from {buckets.min()} to {buckets.max()}, expected 0 to {_BUCKETS - 1}")
    keys, places = np.unique(rows * _BUCKETS + buckets, return_inverse=True)
    sums = np.zeros(len(keys), dtype=np.int64)
    np.add.at(sums, places, counts)
    offsets = np.searchsorted(keys, np.arange(row_count + 1, dtype=np.int64) * _BUCKETS).astype(np.int32)
    pairs = pa.StructArray.from_arrays(
        [pa.array((keys % _BUCKETS).astype(np.int32)), pa.array(sums)], fields=list(LATENCY.value_type)
    )
    return pa.ListArray.from_arrays(pa.array(offsets), pairs).cast(LATENCY)


def sum_lists(lists: pa.Array) -> pa.Array:
    """Each row's list of (b, n) pairs, of any order and with repeats, as a histogram; null as an empty one."""
    pairs = lists.flatten()
    lengths = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    rows = np.repeat(np.arange(len(lists), dtype=np.int64), lengths)
    buckets = pairs.field("b").to_numpy(zero_copy_only=False).astype(np.int64)
    counts = pairs.field("n").to_numpy(zero_copy_only=False).astype(np.int64)
    return sum_by_bucket(rows, buckets, counts, len(lists))
