"""Topics by the parts of their names: groups with sums, opened level by level."""

from admin_console.hub.hub import Hub, LiveState
from admin_console.screens.build import Request, build_screen
from admin_console.screens.parts import Screen
from admin_console.screens.topic_groups import grouped, level_above, total
from admin_console.vocabulary.roles import Role
from tests.support.pages.snapshots import channel, snapshot, topic

NAMES = ["orders.eu.paid", "orders.eu.late", "orders.us.paid", "clicks", "mail.out"]


def live() -> LiveState:
    hub = Hub()
    hub.write(snapshot(*(topic(name, channel(name, "all", depth=number + 1)) for number, name in enumerate(NAMES))))
    assert hub.live is not None
    return hub.live


def screen(**asked: str) -> Screen:
    return build_screen(Request("topics", Role.ADMIN, **asked), live())


def rows(made: Screen) -> dict[str, str]:
    """Name → depth, in the order of the page."""
    table = made.tables["topics"]
    return {row.key: {column.name: cell for column, cell in row.cells}["depth"].html for row in table.rows}


def test_names_are_grouped_by_their_next_part_and_one_alone_is_no_group() -> None:
    assert grouped(NAMES, "") == {"orders.": NAMES[:3], "clicks": ["clicks"], "mail.out": ["mail.out"]}
    assert grouped(NAMES, "orders.") == {"orders.eu.": NAMES[:2], "orders.us.paid": [NAMES[2]]}
    assert grouped(NAMES, "orders.eu.") == {"orders.eu.paid": [NAMES[0]], "orders.eu.late": [NAMES[1]]}
    assert grouped(NAMES, "none.") == {}


def test_a_topic_that_is_called_as_a_group_stands_beside_it() -> None:
    assert grouped(["a", "a.b", "a.c"], "") == {"a": ["a"], "a.": ["a.b", "a.c"]}


def test_the_level_above() -> None:
    assert [level_above(under) for under in ("", "orders.", "orders.eu.", "a.b.c.")] == ["", "", "orders.", "a.b."]


def test_unknown_figures_are_left_out_of_a_sum() -> None:
    assert (total([1, None, 2]), total([None]), total([])) == (3, None, None)


def test_a_group_has_the_sums_of_its_topics_and_leads_into_it() -> None:
    made = screen(by="group", sort="name")
    assert rows(made) == {"clicks": "4", "mail.out": "5", "orders.": "6"}
    name, state = (made.tables["topics"].rows[-1].cells[index][1].html for index in (0, 1))
    assert 'href="/topics/?sort=name&amp;by=group&amp;under=orders."' in name
    assert "3 topics" in state
    assert made.tables["topics"].selection == "", "a group is no topic"


def test_inside_a_group_are_its_groups_and_topics_and_the_way_up() -> None:
    made = screen(by="group", under="orders.", sort="-depth")
    assert rows(made) == {"orders.eu.": "3", "orders.us.paid": "3"}
    assert made.flags["inside"]
    assert made.list_bar.links["above"] == "/topics/?sort=-depth&by=group"
    assert rows(screen(by="group", under="orders.eu.", sort="name")) == {"orders.eu.late": "2", "orders.eu.paid": "1"}


def test_a_search_is_grouped_too_and_the_flat_list_is_one_link_away() -> None:
    made = screen(by="group", q="paid", sort="name")
    assert rows(made) == {"orders.": "4"}
    assert made.list_bar.links["list"] == "/topics/?q=paid&sort=name"
    assert rows(screen(q="paid", sort="name")) == {"orders.eu.paid": "1", "orders.us.paid": "3"}


def test_an_empty_group_says_so() -> None:
    made = screen(by="group", under="none.")
    assert rows(made) == {}
    assert made.tables["topics"].empty.title == "No topic begins with none."
