"""A process of its own that frees 100 MB of bodies and prints how many bytes went back to the system.

In the tests' own process, what other tests have freed before would be taken again first, and nothing could be told.
"""

import sys

from queue_engine.service.loop.freed_memory import of_this_process, used_bytes


def main() -> None:
    freed = of_this_process()
    if freed is None:
        sys.exit("this machine has no glibc")
    large = bytearray(32 << 20)
    large[::4096] = bytes(len(large[::4096]))
    del large  # from now on blocks up to this size are kept
    bodies = [bytes([index % 255 + 1]) * 500_000 for index in range(200)]
    held = [bytes(1_000) for _ in range(1_000)]  # behind them, so that the heap can't be shortened
    with_bodies = used_bytes()
    del bodies
    freed.look()
    assert len(held) == 1_000
    sys.stdout.write(f"{with_bodies - used_bytes()}\n")


if __name__ == "__main__":
    main()
