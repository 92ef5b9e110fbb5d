"""The page Counter: messages of the whole cluster and their rates, partial where a node is silent."""

from admin_console.cluster.merging.merged import ClusterSnapshot
from admin_console.cluster.reading.nodes import ClusterState
from admin_console.hub.hub import Hub
from admin_console.screens.build import Request, build_screen
from admin_console.screens.parts import Screen
from admin_console.vocabulary import units
from admin_console.vocabulary.roles import Role
from tests.support.pages.snapshots import START_S, channel, snapshot, topic


def screen(hub: Hub) -> Screen:
    return build_screen(Request(page="counter", role=Role.VIEWER), hub.live)


def figures(made: Screen) -> dict[str, str]:
    return {stat.name: stat.value.text for stat in made.stats}


def write(hub: Hub, second: int, count: int, *silent: str, cluster: bool = False) -> None:
    billing = channel("orders", "billing", message_count=count, finish_count=count - 500)
    mail = channel("orders", "mail", message_count=count)
    taken = snapshot(topic("orders", billing, mail, message_count=count), second=START_S + second)
    if not cluster:
        hub.write(taken)
        return
    hub.write(ClusterSnapshot(merged=taken, state=ClusterState(), silent={("", ""): silent} if silent else {}))


def test_messages_count_once_and_once_more_for_each_channel() -> None:
    hub = Hub()
    for second in range(31):
        write(hub, second, 12_345_600 + 100 * second)
    found = figures(screen(hub))
    # To the last digit, however large: a counter that stands still is a finding.
    assert (found["published"], found["copies"], found["finished"]) == ("12,348,600", "24,697,200", "12,348,100")
    assert (found["published_rate"], found["finished_rate"]) == ("100/s", "100/s")
    assert not screen(hub).flags["partial"]


def test_a_silent_node_makes_each_count_the_least_and_is_named() -> None:
    hub = Hub()
    write(hub, 0, 1_204, "nsq-b3:4151", cluster=True)
    made = screen(hub)
    assert [figures(made)[name] for name in ("published", "copies", "finished")] == ["≥ 1,204", "≥ 2,408", "≥ 704"]
    assert made.texts["partial"] == "≥: nsq-b3:4151 does not answer; no figure has its messages."
    write(hub, 1, 1_204, *(f"n{number}" for number in range(5)), cluster=True)
    assert screen(hub).texts["partial"] == "≥: n0, n1, n2 and 2 more do not answer; no figure has their messages."


def test_a_node_that_lacks_counts_makes_each_figure_the_least_and_is_named() -> None:
    hub = Hub()
    taken = snapshot(topic("orders", channel("orders", "billing", message_count=1_204)), second=START_S)
    hub.write(ClusterSnapshot(merged=taken, state=ClusterState(), partial_total=("nsq-b3:4151",)))
    made = screen(hub)
    assert figures(made)["copies"] == "≥ 1,204"
    assert {stat.value.title for stat in made.stats} == {"the answer of nsq-b3:4151 lacks counts"}
    assert made.texts["partial"] == "≥: the answer of nsq-b3:4151 lacks counts."
    overview = build_screen(Request(page="overview", role=Role.VIEWER), hub.live)
    assert overview.subtitle.startswith("≥ 1 topic · ≥ 1 channel")
    values = [stat.value for stat in overview.stats if stat.value.text != units.UNKNOWN]
    assert values
    assert all(one.is_least and one.title.endswith("the answer of nsq-b3:4151 lacks counts") for one in values)


def test_rates_and_averages_without_a_silent_node_are_the_least_as_well() -> None:
    hub = Hub()
    for second in range(31):
        write(hub, second, 1_000 + 100 * second, "nsq-b3:4151", cluster=True)
    made = screen(hub)
    rates = {stat.name: (stat.value.text, stat.note.text) for stat in made.stats}
    assert rates["published_rate"] == ("≥ 0/s", "30 s average ≥ 0/s")


def test_before_the_first_figures_all_is_unknown() -> None:
    made = screen(Hub())
    assert set(figures(made).values()) == {"–"}
    assert made.subtitle == "No figures have come yet."
