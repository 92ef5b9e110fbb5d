"""One act on several that are selected: asked once with the counts of each, done one by one, a result for each."""

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.permissions.table import ACTS, BULK_ACTS
from admin_console.views.bulk_acts import SELECTED_MAX, SHOWN_MAX, TOGETHER
from admin_console.views.bulk_kinds import KINDS
from admin_console.vocabulary.roles import Role
from queue_engine.delivery.stats import ChannelStats, TopicStats
from queue_engine.service.runner import EngineRunner
from tests.support.nsq_socket import NsqSocket
from tests.support.pages.console import client_of, console_engine, make_user, see, words

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
NARROW = "Narrow the list by its filter or by a part of the name."
ALL = ["orders/billing", "orders/mail", "clicks/counts"]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineRunner]:
    """orders with billing and mail, clicks with counts; 3 messages in each topic."""
    with console_engine(tmp_path) as runner:
        for name in ALL:
            topic, channel = name.split("/")
            runner.calls.create_topic(topic).result(30)
            runner.calls.create_channel(topic, channel).result(30)
        for topic in ("orders", "clicks"):
            runner.calls.publish(topic, [b"one", b"two", b"three"]).result(30)
        yield runner


def topics_of(engine: EngineRunner) -> dict[str, TopicStats]:
    return {topic.topic_name: topic for topic in engine.calls.stats().result(30).topics}


def channels_of(engine: EngineRunner) -> dict[str, ChannelStats]:
    return {
        f"{topic.topic_name}/{channel.channel_name}": channel
        for topic in topics_of(engine).values()
        for channel in topic.channels
    }


def path_of(act: str, names: list[str] | None = None, of: str = "") -> str:
    query = urlencode([("on", name) for name in names or []] + ([("of", of)] if of else []))
    return f"/topics/~selected/{act}/" + (f"?{query}" if query else "")


def asked_about(html: str) -> list[str]:
    """The lines of the question's names."""
    found = re.search(r'<input type="hidden" name="on"\s+value="([^"]*)"', html)
    assert found is not None
    # A line of nodes is this server's.
    return [line for line in found[1].splitlines() if not line.startswith("@ ")]


def test_each_bulk_act_is_an_act_of_the_table_with_its_role() -> None:
    assert {f"bulk_{name}" for name in KINDS} == set(BULK_ACTS)
    assert all(least is ACTS[name.removeprefix("bulk_")] for name, least in BULK_ACTS.items())


def test_the_question_names_each_with_its_counts(client: Client) -> None:
    answer = client.get(path_of("empty-channel", ["orders/billing", "clicks/counts", "clicks/gone"]))
    text = words(answer.content.decode())
    assert "Empty 3 channels" in text
    assert "orders/billing: 3 messages, 0 consumers" in text
    assert "clicks/gone: it no longer exists" in text
    assert "Type 3 channels to confirm" in text


def test_the_question_of_emptying_topics_counts_what_it_drops(client: Client) -> None:
    text = words(client.get(path_of("empty-topic", ["orders"])).content.decode())
    assert "orders: no messages at the topic itself" in text


def test_channels_of_one_topic_may_be_named_without_it(client: Client) -> None:
    text = words(client.get(path_of("pause-channel", ["billing", "mail"], of="orders")).content.decode())
    assert "orders/billing: 3 messages" in text
    assert "orders/mail: 3 messages" in text


def test_each_is_paused_told_and_audited_and_so_is_the_one_that_is_gone(engine: EngineRunner, client: Client) -> None:
    names = [*ALL, "clicks/gone"]
    answer = client.post(path_of("pause-channel"), {"on": names, "reason": "incident 7"}, headers=JSON)
    told = answer.json()
    assert (told["ok"], told["done"]) == (False, 3)
    assert [(row["name"], row["ok"]) for row in told["results"]] == [(name, name != "clicks/gone") for name in names]
    assert told["results"][-1]["code"] == "CHANNEL_NOT_FOUND"
    assert told["results"][0]["undo"] == "/topics/orders/billing/~unpause/"
    assert {name for name, channel in channels_of(engine).items() if channel.paused} == set(ALL)
    rows = AuditRow.objects.filter(phase="result").order_by("id")
    assert [(row.action, f"{row.topic}/{row.channel}", row.verdict, row.reason) for row in rows] == [
        ("pause_channel", name, "failed" if name == "clicks/gone" else "done", "incident 7") for name in names
    ]


def test_resuming_and_requeuing_several(engine: EngineRunner, client: Client) -> None:
    with NsqSocket(engine.tcp_address[1]) as consumer:
        consumer.send(b"SUB orders billing\n")
        consumer.expect_ok()
        consumer.send(b"RDY 2\n")
        for _ in range(2):
            consumer.read_message()
        consumer.send(b"RDY 0\n")
        told = client.post(path_of("requeue-channel"), {"on": ALL}, headers=JSON).json()
        assert [row["counts"].get("in_flight", 0) for row in told["results"]] == [2, 0, 0]
    client.post(path_of("pause-channel"), {"on": ALL}, headers=JSON)
    assert client.post(path_of("unpause-channel"), {"on": ALL}, headers=JSON).json()["ok"] is True
    assert not any(channel.paused for channel in channels_of(engine).values())


def test_nothing_is_lost_before_the_count_is_typed(engine: EngineRunner, client: Client) -> None:
    for typed, sentence in (("", "Type 2 channels to confirm."), ("3 channels", "'3 channels' is not 2 channels.")):
        form = {"on": ALL[:2], "typed_name": typed}
        answer = client.post(path_of("delete-channel"), form)
        assert answer.status_code == 400
        assert sentence in words(answer.content.decode())
    assert set(channels_of(engine)) == set(ALL)
    told = client.post(path_of("delete-channel"), {"on": ALL[:2], "typed_name": "2 channels"}, headers=JSON).json()
    assert told["ok"] is True
    assert set(channels_of(engine)) == {"clicks/counts"}


def test_the_engine_counts_again_what_a_bulk_act_removes_and_each_can_be_undone(
    engine: EngineRunner, client: Client
) -> None:
    names = ALL[:2]
    html = client.get(path_of("empty-channel", names)).content.decode()
    assert "This can be undone for 24h" in words(html)
    assert asked_about(html) == ["orders/billing 3", "orders/mail 3"]
    form = {"on": "\r\n".join(asked_about(html)), "typed_name": "2 channels"}
    # Far more than the user was told of, in one of them.
    engine.calls.publish("orders", [b"m"] * 2_000).result(10)
    engine.calls.empty_channel("orders", "mail").result(30)
    told = client.post(path_of("empty-channel"), form, headers=JSON).json()
    assert [(row["name"], row["ok"], row["code"]) for row in told["results"]] == [
        ("orders/billing", False, "COUNTS_CHANGED"),
        ("orders/mail", True, ""),
    ]
    channels = channels_of(engine)
    assert (channels["orders/billing"].depth, channels["orders/mail"].depth) == (2_003, 0)
    fresh = client.post(path_of("empty-channel"), {"on": names[:1], "typed_name": "1 channel"}, headers=JSON).json()
    assert client.post(fresh["results"][0]["undo"], headers=JSON).json()["ok"] is True
    assert channels_of(engine)["orders/billing"].depth == 2_003


def test_all_that_pass_the_filter_are_named_by_the_question_and_exactly_these_are_done(
    engine: EngineRunner, client: Client
) -> None:
    many = [f"many/c{number:02}" for number in range(TOGETHER + SHOWN_MAX)]
    for name in ("many/c00", "clicks/counts"):
        engine.calls.create_topic(name.split("/")[0]).result(30)
    for future in [engine.calls.create_channel(*name.split("/")) for name in many]:
        future.result(30)
    engine.calls.publish("many", [b"m"]).result(30)
    see(engine)
    html = " ".join(client.get("/?show=all&q=many/").content.decode().split())
    assert '<input type="hidden" name="show" value="all"><input type="hidden" name="q" value="many/">' in html
    assert re.search(r'data-when="pages"><input type="checkbox" name="all" value="1"> Select all <b[^>]*>70<', html)
    assert "Select all" not in words(client.get("/topics/orders/").content.decode()), "it shows all of its channels"

    asked = client.get(path_of("pause-channel"), {"all": "1", "show": "all", "q": "many/", "on": many[0]})
    text = words(asked.content.decode())
    assert "Pause 70 channels" in text
    assert "In all 70 messages and 0 consumers." in text
    assert text.count("many/c") == SHOWN_MAX
    assert "and 50 more" in text
    named = asked_about(asked.content.decode())
    assert sorted(named) == many
    # One that comes after the question is not in the answer.
    engine.calls.create_channel("many", "late").result(30)
    see(engine)
    shown = re.search(r'name="shown" value="([^"]+)"', asked.content.decode())
    assert shown is not None
    answer = client.post(path_of("pause-channel"), {"on": "\r\n".join(named), "shown": shown[1]})
    text = words(answer.content.decode())
    assert "Paused 70 channels" in text
    assert f"and {len(many) - SHOWN_MAX} more are done" in text
    channels = channels_of(engine)
    assert {name for name, one in channels.items() if one.paused} == set(many)
    rows = AuditRow.objects.order_by("id")
    assert [row.phase for row in rows] == (["intent"] * TOGETHER + ["result"] * TOGETHER) + (
        ["intent"] * SHOWN_MAX + ["result"] * SHOWN_MAX
    )
    # All of it is taken back as it was done: by names that no link could have.
    undo = re.search(
        r'formaction="([^"]+)"\s+name="on"\s+value="([^"]+)">Undo:\s+resume\s+70 channels', answer.content.decode()
    )
    assert undo is not None
    asked = client.post(undo[1], {"ask": "1", "on": undo[2]})
    assert "Resume 70 channels" in words(asked.content.decode())
    assert client.post(undo[1], {"on": "\n".join(asked_about(asked.content.decode()))}, headers=JSON).json()["ok"]
    assert not any(one.paused for one in channels_of(engine).values())
    told = client.get(path_of("pause-topic"), {"all": "1", "show": "busy", "q": "man"}).content.decode()
    assert asked_about(told) == ["many"]
    # Of a topic: its own, and no other topic's.
    for act in ("pause-channel", "delete-channel"):
        of_topic = asked_about(client.get(path_of(act), {"all": "1", "of": "many"}).content.decode())
        assert sorted(name.split()[0] for name in of_topic) == [*many, "many/late"], act


def test_all_of_no_match_is_said(engine: EngineRunner, client: Client) -> None:
    see(engine)
    answer = client.get(path_of("pause-channel"), {"all": "1", "q": "nothing"})
    assert answer.status_code == 400
    assert "Nothing is selected" in words(answer.content.decode())


def test_the_question_says_what_all_of_it_frees_together(engine: EngineRunner, client: Client) -> None:
    def asked(act: str, *names: str) -> str:
        return words(client.get(path_of(act, list(names))).content.decode())

    assert "This frees no disk space: the rest of this topic" in asked("empty-channel", "orders/billing")
    both = asked("empty-channel", "orders/billing", "orders/mail")
    assert "This frees no disk space: topic clicks needs" in both
    assert re.search(r"The disk gets [\d.]+ \w+ back once the trash gives it up\.", asked("empty-channel", *ALL))
    assert re.search(r"The disk gets [\d.]+ \w+ back once", asked("delete-topic", "orders", "clicks"))
    assert "back once" not in asked("empty-topic", "orders", "clicks"), "their channels keep it"
    # A single topic's question says it for both of its choices.
    engine.calls.delete_topic("clicks").result(30)
    one = words(client.get("/topics/orders/~empty/").content.decode())
    assert re.search(r"This frees no disk space.* With its channels too: the disk gets [\d.]+ \w+ back once", one)


def test_topics_are_paused_emptied_and_deleted(engine: EngineRunner, client: Client) -> None:
    both = ["orders", "clicks"]
    client.post(path_of("pause-topic"), {"on": both}, headers=JSON)
    assert all(topic.paused for topic in topics_of(engine).values())
    for name in both:
        engine.calls.publish(name, [b"at the topic"]).result(30)
    told = client.post(path_of("empty-topic"), {"on": both, "typed_name": "2 topics"}, headers=JSON).json()
    assert [row["counts"]["depth"] for row in told["results"]] == [1, 1]
    assert {channel.depth for channel in channels_of(engine).values()} == {3}, "what channels took stays there"
    client.post(path_of("unpause-topic"), {"on": both}, headers=JSON)
    assert client.post(path_of("delete-topic"), {"on": both, "typed_name": "2 topics"}, headers=JSON).json()["ok"]
    assert topics_of(engine) == {}


def test_the_results_are_a_page_with_what_failed_first_and_selected_again(client: Client) -> None:
    html = client.post(path_of("pause-channel"), {"on": ["orders/billing", "orders/none"]}).content.decode()
    text = words(html)
    assert "Paused 1 of 2 channels" in text
    assert text.index("orders/none") < text.index("orders/billing")
    assert "Pause the 1 left again…" in text
    assert 'name="on" value="orders/none">' in html
    fragment = client.post(path_of("pause-channel"), {"on": ["orders/billing"]}, headers={"X-Fragment": "1"})
    assert fragment.content.decode().startswith("<form")


def test_a_wrong_selection_is_told_and_nothing_is_done(client: Client) -> None:
    for names, sentence in (
        (["orders"], "'orders' is not the name of a channel."),
        (["orders/billing/mail"], "'orders/billing/mail' is not the name of a channel."),
        (["orders/<b>"], "'orders/<b>' is not the name of a channel."),
        (
            ["\n".join(f"orders/c{number}" for number in range(SELECTED_MAX + 1))],
            f"5,001 channels are selected, and at most 5,000 can be acted on at once. {NARROW}",
        ),
    ):
        for method in ("get", "post"):
            answer = getattr(client, method)(path_of("pause-channel"), {"on": names})
            assert answer.status_code == 400, names
            assert f"{sentence} Nothing was done." in words(answer.content.decode()), names
            assert not AuditRow.objects.exists(), names


def test_without_a_selection_the_list_says_what_to_do(client: Client) -> None:
    answer = client.get(path_of("pause-topic"), follow=True)
    assert answer.redirect_chain == [("/topics/", 302)]
    assert "Nothing is selected: choose the topics first. Nothing was done." in words(answer.content.decode())
    answer = client.post(path_of("pause-topic"))
    assert answer.status_code == 400
    assert "Nothing is selected" in words(answer.content.decode())


def test_an_operator_pauses_several_and_deletes_none(engine: EngineRunner) -> None:
    operator = client_of(make_user("olga", Role.OPERATOR))
    assert operator.post(path_of("pause-channel"), {"on": ALL}, headers=JSON).json()["ok"] is True
    form = {"on": ALL, "typed_name": "3 channels"}
    assert operator.post(path_of("delete-channel"), form, headers=JSON).status_code == 403
    assert set(channels_of(engine)) == set(ALL)
    assert AuditRow.objects.filter(phase="refused").get().action == "bulk_delete_channel"


@pytest.mark.parametrize(
    ("role", "path", "form"),
    [
        (Role.VIEWER, "/topics/orders/", None),
        (Role.OPERATOR, "/topics/orders/", "select-channels"),
        (Role.OPERATOR, "/topics/", "select-topics"),
        (Role.ADMIN, "/", "select-urgent"),
    ],
)
def test_lists_can_be_selected_from_by_those_who_may_act(
    engine: EngineRunner, role: Role, path: str, form: str | None
) -> None:
    see(engine)
    html = client_of(make_user("olga", role)).get(path).content.decode()
    assert set(re.findall(r'name="on"\s+value="[^"]+"\s+form="([^"]+)"', html)) == ({form} if form else set())
    assert ('class="selected-acts"' in html) == bool(form)
