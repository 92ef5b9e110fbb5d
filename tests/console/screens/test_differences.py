"""What differs between nodes, on the pages concerned: sentences with one act each."""

from html import unescape

from admin_console.cluster.merging.differences import Difference
from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.gateway.cluster_view import ClusterView
from admin_console.hub.hub import Hub
from admin_console.screens.build import Request, build_screen
from admin_console.screens.links import node_url
from admin_console.screens.parts import Screen
from admin_console.vocabulary.roles import Role
from tests.support.pages.snapshots import START_S, channel, snapshot, topic

CONSUMERS = Difference("consumers", "invoices/pdf: one.", "Two <b>.", "invoices", "pdf", "nsq-c:4151", 640, 1_000)
CHANNEL = Difference("channel", "invoices/mail exists on 2.", "", "invoices", "mail", "nsq-b:4151")
PAUSED = Difference("paused", "invoices is paused on 1.", "", "invoices")
CLOCK = Difference("clock", "nsq-c's clock is ahead.", "", node="nsq-c:4151")
SPLIT = Difference("nsqlookupds", "b:4161 does not name nsq-c.")
VERSIONS = Difference("versions", "3 versions.")


def screen(page: str, *found: Difference, role: Role = Role.OPERATOR, **where: str) -> Screen:
    taken = snapshot(topic("invoices", channel("invoices", "pdf"), channel("invoices", "mail")))
    hub = Hub()
    hub.write(ClusterSnapshot(merged=taken, state=ClusterState(), differences=found))
    view = ClusterView(ClusterState()) if page == "nodes" else None
    return build_screen(Request(page=page, role=role, **where), hub.live, cluster=view)


def lines(made: Screen) -> list[tuple[str, ...]]:
    return [tuple(cell.html for _, cell in row.cells) for row in made.tables["differences"].rows]


def test_the_nodes_page_has_all_with_the_likely_cure() -> None:
    made = screen("nodes", CONSUMERS, CHANNEL, CLOCK, PAUSED, SPLIT, VERSIONS)
    (consumers, missing, clock, paused, split, versions) = lines(made)
    assert "chip-warning" in consumers[0]
    assert "Since 1970-01-01 00:00:01 UTC" in consumers[0]
    # Names of nodes are others' text.
    assert consumers[1] == '<span><strong>invoices/pdf: one.</strong> <span class="muted">Two &lt;b&gt;.</span></span>'
    assert f'href="{node_url("nsq-c:4151")}">Open nsq-c:4151</a>' in consumers[2]
    create = "/lookup/~create/?topic=invoices&channel=mail&node=nsq-b%3A4151"
    assert f'href="{create}"' in unescape(missing[2])
    assert "Open nsq-c:4151" in clock[2]
    assert "chip-held" in paused[0]
    assert 'href="/topics/invoices/"' in paused[2]
    assert 'href="/lookup/"' in split[2]
    assert 'href="/nodes/?sort=version"' in versions[2]
    assert made.texts["differences"] == "6 findings, the worst first"
    assert made.flags["differs"]


def test_a_topic_has_those_about_it_and_a_channel_those_about_both() -> None:
    every = (CONSUMERS, CHANNEL, PAUSED, CLOCK)
    # A page does not link itself.
    assert lines(screen("topic", PAUSED, topic="invoices"))[0][2] == ""
    assert [line[1] for line in lines(screen("topic", *every, topic="invoices"))] == [
        line[1] for line in lines(screen("nodes", CONSUMERS, CHANNEL, PAUSED))
    ]
    of_channel = lines(screen("channel", *every, topic="invoices", channel="pdf"))
    assert [line[1] for line in of_channel] == [line[1] for line in lines(screen("nodes", CONSUMERS, PAUSED))]
    other = screen("topic", *every, topic="orders")
    assert "differences" not in other.tables  # there is no such topic
    assert not screen("topic", CLOCK, topic="invoices").flags["differs"]


def test_consumers_at_some_nodes_are_a_state_of_their_channel_while_messages_wait_at_the_others() -> None:
    """Its sums look healthy: a list that showed only those would hide the node without a consumer."""
    pdf = channel("invoices", "pdf", depth=640, client_count=2, ready_count=20)
    hub = Hub()

    def see(second: int, part: str = "2 of 3", weight: float = 640) -> dict[str, Screen]:
        text = "None on nsq-c:4151. 640 messages wait there."
        apart = Difference("consumers", "title", text, "invoices", "pdf", "nsq-c:4151", weight, 1_000, part=part)
        taken = snapshot(topic("invoices", pdf), second=START_S + second)
        hub.write(ClusterSnapshot(merged=taken, state=ClusterState(), differences=(apart,)))
        pages = ("overview", "topics", "topic", "channel")
        of = {"topic": {"topic": "invoices"}, "channel": {"topic": "invoices", "channel": "pdf"}}
        return {page: build_screen(Request(page, Role.OPERATOR, **of.get(page, {})), hub.live) for page in pages}

    see(0)
    assert "consumers on" not in str(see(2)["overview"].tables["urgent"].wire()), "a consumer may be reconnecting"
    made = see(4)
    for page, table in (("overview", "urgent"), ("topics", "topics"), ("topic", "channels")):
        assert "consumers on 2 of 3" in str(made[page].tables[table].wire()), page
    assert made["overview"].texts["count_attention"] == "1"
    banner = made["overview"].banner
    assert banner is not None
    assert banner.title == "invoices/pdf: consumers are connected to 2 of 3 nodes."
    assert banner.text == "None on nsq-c:4151. 640 messages wait there."
    assert f'href="{node_url("nsq-c:4151")}">Open nsq-c:4151' in banner.acts_html
    assert made["channel"].banner is not None
    assert not made["channel"].flags["differs"], "the banner has it"
    assert made["topic"].flags["differs"]
    calm = [see(second, weight=0) for second in range(5, 9)][-1]
    assert "consumers on" not in str(calm["overview"].tables["urgent"].wire()), "nothing waits at that node"
    assert calm["channel"].flags["differs"]


def test_a_viewer_reads_why_not() -> None:
    ((_, _, act),) = lines(screen("nodes", CHANNEL, role=Role.VIEWER))
    assert "Needs the role operator; yours is viewer." in act


def test_of_very_many_the_worst_are_shown() -> None:
    many = [Difference("clock", f"{number}", node=f"n{number}") for number in range(30)]
    made = screen("nodes", *many)
    assert len(made.tables["differences"].rows) == 20
    assert made.texts["differences"] == "30 findings, the worst 20 of them"


def test_one_server_has_no_such_table() -> None:
    hub = Hub()
    hub.write(snapshot(topic("invoices")))
    made = build_screen(Request(page="topic", role=Role.ADMIN, topic="invoices"), hub.live)
    assert "differences" not in made.tables
