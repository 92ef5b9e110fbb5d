"""Pages of a cluster of 50 nodes with 200 topics, 5 channels each, and 20,000 clients, in Chromium: first paint, and
the bytes a second of each open page's frames.

    python -m tests.benchmarks.cluster_pages [--nodes 50] [--topics 200] [--channels 5] [--clients 20000] [--seconds 20]

The nodes are those of cluster_reads.py. First paints are medians of wall-clock time, which other work of the machine
disturbs: beside each stands the processor time that the server took for the page.
"""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.browsing import Browsed, browse
from tests.benchmarks.cluster_reads import CHANNEL, TOPIC, Nodes
from tests.benchmarks.many_channels import FRAME_BYTES_MAX, processor_seconds
from tests.support.pages.console_client import ConsoleClient
from tests.support.processes.server import ServerProcess
from tests.support.waiting import wait_for

FIRST_PAINT_MS_MAX = 1_000.0
READ_S = 180.0  # until all nodes were read, on a busy machine
ANSWERS = 5


@dataclass(frozen=True, slots=True)
class Page:
    """page_cpu_ms: of the server, for one answer; the least of some."""

    browsed: Browsed
    page_cpu_ms: float

    @property
    def line(self) -> str:
        one = self.browsed
        return (
            f"{one.path:24} first paint {one.first_paint_ms:5.0f} ms (target {FIRST_PAINT_MS_MAX:.0f}), "
            f"{self.page_cpu_ms:4.0f} ms of processor time; frames {one.frame_bytes_s / 1e3:5.1f} KB/s (target "
            f"{FRAME_BYTES_MAX / 1e3:.0f}), {one.text_bytes_s / 1e3:5.1f} before compression, {one.updates} in all; "
            f"main thread {one.busy_share:.0%}"
        )


def cluster_pages(directory: Path, nodes: Nodes, seconds: float) -> list[Page]:
    """seconds: how long each page is open."""
    flags = [f"--nsqd-http-address={one}" for one in nodes.addresses]
    topic = f"/topics/{TOPIC}/"
    paths = ("/", "/topics/", topic, f"{topic}{CHANNEL}/", "/nodes/", f"/nodes/{nodes.addresses[0]}/", "/clients/")
    with ServerProcess(directory / "data", options=["--no-pipeline", *flags]) as server:
        client = ConsoleClient(server.console_port)
        client.log_in()
        words = f"{len(nodes.addresses) + 1} nodes"

        def all_answer() -> bool:
            text = client.get("/").text
            return words in text and f"of {words}" not in text

        wait_for("all nodes", all_answer, timeout_s=READ_S, every_s=1)
        found = [Page(one, _page_cpu_ms(server, client, one.path)) for one in browse(client, paths, seconds)]
        client.close()
        return found


def _page_cpu_ms(server: ServerProcess, client: ConsoleClient, path: str) -> float:
    """Beside the reading of the nodes, which goes on: the least of some."""
    client.close()  # a connection that was idle meanwhile has ended
    took: list[float] = []
    for _ in range(ANSWERS):
        before_s = processor_seconds(server)[1]
        assert client.get(path).status == 200, path
        took.append(1e3 * (processor_seconds(server)[1] - before_s))
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--topics", type=int, default=200)
    parser.add_argument("--channels", type=int, default=5, help="of each topic")
    parser.add_argument("--clients", type=int, default=20_000, help="of all nodes")
    parser.add_argument("--seconds", type=float, default=20)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        Nodes(given.nodes, given.topics, given.channels, given.clients) as nodes,
    ):
        for page in cluster_pages(Path(directory), nodes, given.seconds):
            print(page.line)


if __name__ == "__main__":
    main()
