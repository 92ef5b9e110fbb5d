"""The use of the process's memory, as far as Python measures it, and the work of its collector."""

import ctypes
import gc
import sys
import time
from collections import Counter

from queue_engine.service.monitoring.process_memory import memory_stats

TYPES_SHOWN = 40
PLACES_SHOWN = 40
# The interpreter runs one thread at a time: after so many objects the others have their turn.
OBJECTS_AT_ONCE = 5_000


def memory_text() -> str:
    """The objects by type; where memory was taken, if tracemalloc is on. Takes about a second per million objects, in
    short steps: call it on a thread of its own."""
    lines = [f"{name:<25}\t{value}" for name, value in memory_stats(counts_anew=True).items()]
    lines += ["", *_types()]
    lines += ["", *_places()]
    return "\n".join([*lines, ""])


def collector_text() -> str:
    """The work of Python's cyclic collector since the start, by generation."""
    lines = [
        f"enabled\t{str(gc.isenabled()).lower()}",
        f"objects of the start, which it leaves alone\t{gc.get_freeze_count()}",
        f"objects that it can't free\t{len(gc.garbage)}",
        "",
        "generation\tthreshold\tcount\tcollections\tcollected\tuncollectable",
    ]
    rows = zip(gc.get_threshold(), gc.get_count(), gc.get_stats(), strict=True)
    for generation, (threshold, count, done) in enumerate(rows):
        lines.append(
            f"{generation}\t{threshold}\t{count}\t{done['collections']}\t{done['collected']}\t{done['uncollectable']}"
        )
    return "\n".join([*lines, ""])


def free_memory() -> None:
    """Collect garbage and return free memory to the system. Everything else waits meanwhile, for about a
    tenth of a second per million objects."""
    gc.collect()
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return  # another C library than glibc
    trim(ctypes.c_size_t(0))


def _types() -> list[str]:
    objects = gc.get_objects()
    counts: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    total = len(objects)
    while objects:
        part = objects[-OBJECTS_AT_ONCE:]
        del objects[-OBJECTS_AT_ONCE:]
        for one in part:
            kind = type(one)
            name = f"{kind.__module__}.{kind.__qualname__}"
            counts[name] += 1
            sizes[name] += sys.getsizeof(one, 0)
        del part
        time.sleep(0)
    lines = [
        f"{total} objects that the collector watches, by type; bytes are their own, without objects that they refer to",
        f"and {gc.get_freeze_count()} objects of the start, which it leaves alone",
    ]
    lines += [f"{count:>9}\t{sizes[name]:>11}\t{name}" for name, count in counts.most_common(TYPES_SHOWN)]
    if len(counts) > TYPES_SHOWN:
        lines.append(f"and {len(counts) - TYPES_SHOWN} types more")
    return lines


def _places() -> list[str]:
    import tracemalloc  # with pickle: here, since few servers are looked into and each one starts

    if not tracemalloc.is_tracing():
        return ["The places that took memory are unknown: tracemalloc is off. Start with PYTHONTRACEMALLOC=1."]
    found = tracemalloc.take_snapshot().statistics("lineno")
    held = sum(one.size for one in found)
    lines = [f"{held} bytes that Python took since tracemalloc was on, by line"]
    for one in found[:PLACES_SHOWN]:
        place = one.traceback[0]
        lines.append(f"{one.count:>9}\t{one.size:>11}\t{place.filename}:{place.lineno}")
    return lines
