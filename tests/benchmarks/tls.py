"""What TLS costs: publishing and consuming beside the same in plain, in alternating rounds on one server.

    .venv/bin/python -m tests.benchmarks.tls [--rounds 9] [--messages 200000]

The load is that of `stream_200`: MPUBs of 200 messages of 200 bytes on two connections, then two consumers with RDY
2500. Its own side of TLS is part of the time. Shown are the medians of both, and the median of the ratios of the
rounds, with their quartiles.
"""

import argparse
import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.scenarios import Stream
from tests.support.certificates import Certificates
from tests.support.processes.server import ServerProcess


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--messages", type=int, default=200_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        certificates = Certificates.make(Path(name))
        options = ["--no-pipeline", *certificates.server_options]
        with ServerProcess(Path(name) / "data", options=options) as server:
            pairs = compare(server, certificates, given.rounds, given.messages)
    for row in pairs[0][0]:
        plain = statistics.median(pair[0][row] for pair in pairs)
        tls = statistics.median(pair[1][row] for pair in pairs)
        ratios = sorted(pair[1][row] / pair[0][row] for pair in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        sys.stdout.write(
            f"{row}: plain {plain:,.0f}/s, TLS {tls:,.0f}/s, ratio {statistics.median(ratios):.2f} "
            f"[{low:.2f} … {high:.2f}] of {len(pairs)} rounds\n"
        )


def compare(
    server: ServerProcess, certificates: Certificates, rounds: int, messages: int
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """(plain, TLS) of each round."""
    stream = Stream("200", body_bytes=200, messages=messages, storage="log")
    pairs: list[tuple[dict[str, float], dict[str, float]]] = []
    for number in range(rounds):
        figures: dict[bool, dict[str, float]] = {}
        for is_tls in (False, True) if number % 2 == 0 else (True, False):
            os.environ.pop("NSQ_LOAD_CA", None)
            if is_tls:
                os.environ["NSQ_LOAD_CA"] = str(certificates.authority.certificate)
            figures[is_tls] = stream.penstock(server)
        pairs.append((figures[False], figures[True]))
    return pairs


if __name__ == "__main__":
    main()
