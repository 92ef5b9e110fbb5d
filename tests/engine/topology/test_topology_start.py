"""What a start does with the topology files that it finds: killed, older, newer, damaged."""

from pathlib import Path

import pytest

from queue_engine.engine.topology.files import encode_entry
from queue_engine.engine.topology.topology import parse_topology
from queue_engine.vocabulary.errors import TopologyError
from queue_engine.vocabulary.flow.pause import Pause, Ramp
from queue_engine.vocabulary.version import VERSION
from tests.support.topology import CHANGES, file_of, load_topology, open_engine, put_file, written

FIXTURES = Path(__file__).parent.parent.parent / "storage" / "fixtures"


def killed(directory: Path, *topics: str) -> None:
    """A process that made these topics, and was killed."""
    engine = open_engine(directory)
    for topic in topics:
        engine.acts.create_topic(topic)


def names_of(directory: Path) -> list[str]:
    return [topic["name"] for topic in written(directory)["topics"]]


@pytest.mark.parametrize("cut_bytes", [1, 2, 30, 60])
def test_an_unfinished_line_at_the_end_was_not_answered_and_is_cut(tmp_path: Path, cut_bytes: int) -> None:
    killed(tmp_path, "orders", "late")
    path = tmp_path / CHANGES
    path.write_bytes(path.read_bytes()[:-cut_bytes])
    engine = open_engine(tmp_path)
    assert list(engine.topics) == ["orders"]
    engine.acts.create_topic("anew")
    assert names_of(tmp_path) == ["orders", "anew"]


def test_a_damaged_line_before_another_stops_the_start_and_nothing_is_changed(tmp_path: Path) -> None:
    killed(tmp_path, "orders", "late")
    path = tmp_path / CHANGES
    data = bytearray(path.read_bytes())
    data[data.index(b"orders")] ^= 1
    path.write_bytes(data)
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()}
    with pytest.raises(TopologyError, match=r"topology\.changes is damaged at byte \d+"):
        open_engine(tmp_path)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir() if one.is_file()} == before


def test_every_single_flipped_bit_of_the_file_stops_the_start(tmp_path: Path) -> None:
    engine = open_engine(tmp_path)
    engine.acts.create_topic("orders")
    engine.acts.create_channel("orders", "billing")
    engine.close()
    content = (tmp_path / "topology.json").read_bytes()
    right = parse_topology(content, "f")
    for at in range(len(content)):
        for bit in range(8):
            altered = bytearray(content)
            altered[at] ^= 1 << bit
            try:
                found = parse_topology(bytes(altered), "f")
            except TopologyError:
                continue
            assert found.is_checked, f"bit {bit} of byte {at} makes it a file of the old format"
            assert found == right, f"bit {bit} of byte {at}"


def test_an_altered_file_stops_the_start_and_names_its_predecessor_and_the_command(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    open_engine(tmp_path).close()
    path = tmp_path / "topology.json"
    altered = path.read_bytes().replace(b'"number": 1', b'"number": 7')
    assert altered != path.read_bytes()
    path.write_bytes(altered)
    with pytest.raises(TopologyError) as stop:
        open_engine(tmp_path)
    for part in ("does not match its checksum", "topology.json.previous", "penstock topology"):
        assert part in str(stop.value)
    assert path.read_bytes() == altered


def test_its_predecessor_put_in_its_place_tells_the_same(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    engine = open_engine(tmp_path)
    engine.acts.create_topic("late")
    engine.acts.pause_topic("late")
    engine.close()
    before = written(tmp_path)
    open_engine(tmp_path)  # and killed
    (tmp_path / "topology.json").write_bytes((tmp_path / "topology.json.previous").read_bytes())
    after = written(tmp_path)
    assert [(topic["name"], topic["number"], topic["paused"]) for topic in after["topics"]] == [
        (topic["name"], topic["number"], topic["paused"]) for topic in before["topics"]
    ]
    assert list(open_engine(tmp_path).topics) == ["orders", "late"]


@pytest.mark.parametrize("name", ["topology.json", CHANGES])
def test_a_missing_file_stops_the_start(tmp_path: Path, name: str) -> None:
    killed(tmp_path, "orders")
    (tmp_path / name).unlink()
    with pytest.raises(TopologyError, match=rf"{name} is missing"):
        open_engine(tmp_path)


def test_files_of_two_data_directories_do_not_belong_together(tmp_path: Path) -> None:
    for one in ("a", "b"):
        (tmp_path / one).mkdir()
        killed(tmp_path / one, "orders")
    (tmp_path / "a" / CHANGES).write_bytes((tmp_path / "b" / CHANGES).read_bytes())
    identities = [file_of(tmp_path / one)["identity"] for one in ("a", "b")]
    with pytest.raises(TopologyError, match=f"{identities[0]}.*{identities[1]}.*don't belong together"):
        open_engine(tmp_path / "a")


def test_a_file_without_a_checksum_is_accepted_once(tmp_path: Path) -> None:
    old = put_file(tmp_path, (FIXTURES / "topology_v1.json").read_bytes())
    content = old.read_bytes()
    engine = open_engine(tmp_path)
    assert {name: list(topic.channels) for name, topic in engine.topics.items()} == {
        "orders": ["billing", "late"],
        "plain": [],
    }
    assert engine.catalog.channel("orders", "late").paused
    assert engine.catalog.topic("orders").number == 1
    assert (tmp_path / "topology.json.previous").read_bytes() == content
    engine.close()
    put_file(tmp_path, content)
    with pytest.raises(TopologyError, match="has no checksum, and there was one before"):
        open_engine(tmp_path)


def test_files_of_format_2_are_read_and_merged_at_once(tmp_path: Path) -> None:
    """The version that wrote them would drop what it does not know of later changes."""
    put_file(tmp_path, (FIXTURES / "topology_v2.json").read_bytes())
    put_file(tmp_path, (FIXTURES / "topology_v2.changes").read_bytes(), CHANGES)
    engine = open_engine(tmp_path)
    catalog = engine.catalog
    assert [catalog.channel("orders", name).paused for name in ("billing", "late")] == [True, False]
    assert catalog.topic("plain").paused
    assert file_of(tmp_path)["format"] == 3
    assert load_topology(tmp_path).topics[1].channels[2].pause is None


def test_a_file_of_format_3_keeps_its_pauses_and_ramps(tmp_path: Path) -> None:
    put_file(tmp_path, (FIXTURES / "topology_v3.json").read_bytes())
    put_file(tmp_path, (FIXTURES / "topology_v3.changes").read_bytes(), CHANGES)
    orders, plain = load_topology(tmp_path).topics.values()
    assert orders.channels[2].pause == Pause("anna", "bad deploy", 1_760_000_000_000, 1_760_000_900_000, 12)
    assert orders.channels[3].ramp == Ramp(1_760_000_000_000, 1_760_000_300_000)
    assert plain.pause == Pause("token deploy", "", 1_760_000_000_000, 0, 0, "ben", 1_760_000_060_000)


@pytest.mark.parametrize(
    "wrong",
    [{"pause": 1}, {"pause": {"by": 1}}, {"pause": {"depth": -1}}, {"ramp": []}, {"ramp": {"until_ms": "x"}}],
)
def test_a_pause_that_is_none_is_named(tmp_path: Path, wrong: dict[str, object]) -> None:
    put_file(tmp_path, {"topics": [{"name": "orders", "channels": [{"name": "billing", **wrong}]}]})
    with pytest.raises(TopologyError, match=r"topology.json can't be read: ValueError .* is .* and not "):
        open_engine(tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"format": 4, "version": "0.9.0"}, r"format 4, and this .*up to 3; .* Start version 0\.9\.0, which wrote it"),
        ({"format": 4, "version": VERSION}, rf"up to 3; .* Start the newer build of Penstock {VERSION} that wrote it"),
    ],
)
def test_a_newer_file_is_refused_naming_both_versions(tmp_path: Path, change: dict[str, object], told: str) -> None:
    path = put_file(tmp_path, {"topics": [{"name": "orders"}], **change})
    content = path.read_bytes()
    with pytest.raises(TopologyError, match=told):
        open_engine(tmp_path)
    assert path.read_bytes() == content


def test_a_newer_file_of_changes_is_refused_naming_both_versions(tmp_path: Path) -> None:
    killed(tmp_path, "orders")
    (tmp_path / CHANGES).write_bytes(encode_entry({"format": 7, "identity": "x", "after": 0}))
    with pytest.raises(TopologyError, match="format 7, and this version knows formats up to 1"):
        open_engine(tmp_path)
