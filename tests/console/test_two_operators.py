"""Two operators at once: an act whose question showed what another act has changed since is not done, and says so."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import unescape
from itertools import count
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.test import Client

from admin_console.audit.models import AuditRow
from admin_console.gateway.gateway import DONE, ActResult, Asker, get_gateway
from queue_engine.engine.acts.log_acts import Target
from queue_engine.engine.engine import Engine
from queue_engine.engine.engine_calls import ENGINE_ACTS
from queue_engine.service.identity.token_file import TokenFile
from queue_engine.service.runner import EngineRunner
from queue_engine.vocabulary.acts.table import ACTS, rivals_of
from tests.support.engine import Client as Consumer
from tests.support.pages.console import client_of, console_engine, make_user

pytestmark = pytest.mark.django_db

JSON = {"Accept": "application/json"}
_TOPICS = (f"t{number}" for number in count())


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineRunner]:
    with console_engine(tmp_path_factory.mktemp("two"), sync="os") as runner:
        yield runner


@pytest.fixture
def ada(engine: EngineRunner) -> Client:
    return client_of(make_user("ada"))


@pytest.fixture
def grace(engine: EngineRunner) -> Client:
    return client_of(make_user("grace"))


class Place:
    """A topic of its own with the channel c, which has messages that wait, are deferred and are quarantined."""

    def __init__(self, engine: EngineRunner) -> None:
        self.engine = engine
        self.topic = next(_TOPICS)
        self.trash = 0
        self.do("create_topic", self.topic)
        self.do("create_channel", self.topic, "c")
        self.do("publish", self.topic, [b"a", b"b", b"c", b"d"])
        self.do("quarantine_messages", self.topic, "c", offsets=[0, 1])
        self.do("publish", self.topic, [b"later"], defer_ms=60_000)

    def do(self, act: str, *args: Any, **details: Any) -> Any:
        return getattr(self.engine.calls, act)(*args, **details).result(30)

    def pause(self, *names: str) -> None:
        self.do(f"pause_{'channel' if names else 'topic'}", self.topic, *names, by="root")

    def redrive(self) -> None:
        self.do("redrive_channel", self.topic, "c", rate=1)

    def hold(self) -> None:
        """A consumer holds a message, and gets one again at once."""
        self.engine.calls.run(lambda engine: consume(engine, self.topic)).result(30)

    def archive(self) -> None:
        self.do("create_cursor", self.topic, cursor="archive", start=Target(word="start"))

    def empty(self) -> None:
        self.trash = self.trash or self.do("empty_channel", self.topic, "c").trash


def consume(engine: Engine, topic: str) -> None:
    client = Consumer(engine, topic, "c")
    client.channel.set_ready(client.consumer, 1)


@dataclass(frozen=True)
class Case:
    """path: below the topic, {trash}: the entry's. ready: makes the act possible. form: what a person fills in."""

    path: str
    ready: Callable[[Place], None] = lambda place: None
    form: Mapping[str, str] = field(default_factory=dict)
    typed: str = ""


CASES = {
    "create_channel": Case("~create-channel/", form={"channel": "c2"}),
    "publish": Case("~publish/", form={"body": "x"}),
    "pause_topic": Case("~pause/", form={"for": "15m", "reason": "deploy"}),
    "unpause_topic": Case("~unpause/", Place.pause),
    "pause_channel": Case("c/~pause/", form={"for": "15m", "reason": "deploy"}),
    "unpause_channel": Case("c/~unpause/", lambda place: place.pause("c")),
    "retry_topic": Case("~retry/"),
    "retry_channel": Case("c/~retry/"),
    "requeue_channel": Case("c/~requeue/", Place.hold),
    "release_deferred": Case("c/~release-deferred/"),
    "requeue_messages": Case("c/~messages/~requeue/", form={"id": "2"}),
    "release_messages": Case("c/~messages/~release/", form={"id": "4"}),
    "publish_again": Case("c/~messages/~publish-again/", form={"id": "2", "to": ""}),
    "set_max_attempts": Case("c/~max-attempts/", form={"max_attempts": "7"}),
    "redrive_channel": Case("c/~redrive/", form={"rate": "1"}),
    "cancel_redrive": Case("c/~cancel-redrive/", Place.redrive),
    "archive_on": Case("~archive-on/", form={"start": "end"}),
    "finish_messages": Case("c/~messages/~finish/", form={"id": "2"}),
    "rewind_channel": Case("c/~rewind/", form={"place": "start"}),
    "empty_topic": Case("~empty/", typed="{topic}"),
    "empty_channel": Case("c/~empty/", typed="{topic}/c"),
    "delete_topic": Case("~delete/", typed="{topic}"),
    "delete_channel": Case("c/~delete/", typed="{topic}/c"),
    "restore_trash": Case("~trash/{trash}/~restore/", Place.empty),
    "delete_trash": Case("~trash/{trash}/~delete/", Place.empty),
    "delete_cursor": Case("~cursors/archive/~delete/", Place.archive, typed="{topic}/archive"),
    "archive_off": Case("~archive-off/", Place.archive, typed="{topic}/archive"),
    "archive_again": Case("~archive-again/", Place.archive, form={"start": "start"}, typed="{topic}/archive"),
    "quarantine_messages": Case("c/~messages/~quarantine/", form={"id": "2"}),
    "redrive_messages": Case("c/~messages/~redrive/", form={"id": "0"}),
}
OF_ENGINE = [name for name, act in ACTS.items() if act.role is not None and act.name in ENGINE_ACTS and act.unchanged]
BESIDE = [name for name, act in ACTS.items() if act.role is not None and act.name not in ENGINE_ACTS and act.unchanged]
# While a channel is being redriven, it can't be redriven; of an emptied one there is nothing to redrive.
IMPOSSIBLE = {("cancel_redrive", "redrive_channel"), ("restore_trash", "redrive_channel")}
# An emptied channel has no message to release or requeue, and the archive that the first act needs is on already.
UNCHANGED = {
    ("restore_trash", "release_deferred"),
    ("restore_trash", "requeue_channel"),
    *((act, "archive_on") for act in ("delete_cursor", "archive_off", "archive_again")),
}


class Asked:
    """The question of an act as one operator has it on the screen."""

    def __init__(self, client: Client, act: str, place: Place) -> None:
        case = CASES[act]
        self.client = client
        self.url = f"/topics/{place.topic}/{case.path.format(trash=place.trash)}"
        answer = client.get(self.url, case.form if "id" in case.form else {})
        assert answer.status_code == 200, (act, answer.content)
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', answer.content.decode())
        self.form = {name: unescape(value) for name, value in hidden} | dict(case.form)
        assert self.form["shown"], act
        if case.typed:
            self.form["typed_name"] = case.typed.format(topic=place.topic)
        if act == "rewind_channel":
            self.form |= client.post(self.url, self.form, headers=JSON).json()["form"]

    def confirm(self) -> dict[str, Any]:
        answer = self.client.post(self.url, self.form, headers=JSON)
        return {**answer.json(), "status": answer.status_code}


def state_of(place: Place) -> Any:
    """What acts change of the topic, without the times and rates of its figures."""
    topics = place.do("stats", topic=place.topic, include_clients=False).topics
    return [
        (topic.number, topic.paused, topic.pause, topic.depth, [cursor.cursor for cursor in topic.cursors])
        + tuple(
            (one.number, one.paused, one.pause, one.depth, one.deferred_count, one.quarantine.max_attempts)
            for one in topic.channels
        )
        for topic in topics
    ]


def test_each_act_with_a_page_and_a_state_has_a_case() -> None:
    assert set(CASES) == set(OF_ENGINE)


CHANGING = [name for name in OF_ENGINE if ACTS[name].changes]


def test_the_second_of_two_that_were_asked_at_once_is_not_done_and_names_the_first(
    engine: EngineRunner, ada: Client, grace: Client
) -> None:
    for act in CHANGING:
        place = Place(engine)
        CASES[act].ready(place)
        first, second = Asked(grace, act, place), Asked(ada, act, place)
        assert first.confirm()["ok"] is True, act
        before = state_of(place)
        told = second.confirm()
        assert (told["ok"], told["status"]) in ((False, 409), (False, 404)), (act, told)
        assert re.search(r"\d\d:\d\d:\d\d UTC, grace: ", told["message"]), (act, told)
        if act not in ("redrive_channel", "cancel_redrive"):
            assert state_of(place) == before, act
        if told["code"] == "STATE_CHANGED":
            assert told["message"].endswith("Nothing was done.")
            assert AuditRow.objects.get(phase="result", actor="ada", action=act).message == told["message"]


def test_an_act_is_not_done_after_any_that_shares_its_state(engine: EngineRunner, ada: Client, grace: Client) -> None:
    wrong = []
    pairs = [(act, rival) for act in CHANGING for rival in sorted(rivals_of(act) & set(OF_ENGINE) - {act})]
    for act, rival in pairs:
        if (act, rival) in IMPOSSIBLE:
            continue
        place = Place(engine)
        for ready in sorted((CASES[act].ready, CASES[rival].ready), key=lambda one: one is Place.empty):
            ready(place)
        late = Asked(ada, act, place)
        assert Asked(grace, rival, place).confirm()["ok"] is True, (act, rival)
        told = late.confirm()
        is_named = not told["ok"] and "grace" in told["message"]
        if is_named == ((act, rival) in UNCHANGED) or told["ok"] == is_named:
            wrong.append((act, rival, told))
    assert len(pairs) > 60
    assert not wrong


def test_acts_that_share_no_state_do_not_hinder_each_other(engine: EngineRunner, ada: Client, grace: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    for other in ("pause_topic", "set_max_attempts", "publish", "release_deferred", "archive_on", "finish_messages"):
        assert Asked(grace, other, place).confirm()["ok"] is True, other
    assert late.confirm()["ok"] is True


def test_an_act_on_another_incarnation_is_not_done(engine: EngineRunner, ada: Client) -> None:
    for act in OF_ENGINE:
        if act.endswith("_trash"):
            continue  # an entry is the same, whatever has its topic's name
        place = Place(engine)
        CASES[act].ready(place)
        late = Asked(ada, act, place)
        place.do("delete_topic", place.topic)
        place.do("create_topic", place.topic)
        place.do("create_channel", place.topic, "c")
        place.archive()
        before = state_of(place)
        told = late.confirm()
        assert (told["ok"], told["code"]) == (False, "STATE_CHANGED"), (act, told)
        assert "was deleted and created again after this was shown" in told["message"], act
        assert state_of(place) == before, act


@pytest.mark.parametrize("kind", ["topic", "channel"])
def test_what_came_back_from_the_trash_is_said_to_be_restored(
    engine: EngineRunner, ada: Client, grace: Client, kind: str
) -> None:
    def delete_and_restore() -> None:
        assert Asked(grace, f"delete_{kind}", place).confirm()["ok"]
        deleted = get_gateway().deletion_of(place.topic, "c")
        assert deleted is not None
        place.trash = deleted.trash
        assert Asked(grace, "restore_trash", place).confirm()["ok"]

    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    delete_and_restore()
    told = late.confirm()
    assert (told["ok"], told["code"]) == (False, "STATE_CHANGED"), told
    assert f"{place.topic}/c was restored from the trash after this was shown." in told["message"]
    # One that was created behind that is another one, and its topic the restored one.
    late, of_topic = Asked(ada, "pause_channel", place), Asked(ada, "pause_topic", place)
    delete_and_restore()
    assert Asked(grace, "delete_channel", place).confirm()["ok"]
    place.do("create_channel", place.topic, "c")
    assert "was deleted and created again after this was shown" in late.confirm()["message"]
    if kind == "topic":
        assert f"{place.topic} was restored from the trash after this was shown." in of_topic.confirm()["message"]


@pytest.mark.parametrize("act", BESIDE)
def test_an_act_that_is_not_the_engines_is_done_once(engine: EngineRunner, act: str) -> None:
    gateway, done = get_gateway(), []
    part = next(_TOPICS)

    def do() -> ActResult:
        done.append(act)
        return ActResult(DONE, "Did it.")

    shown = gateway.mark("")
    assert gateway.act_beside(act, "", "", Asker("grace", shown, part), do).verdict == DONE
    told = gateway.act_beside(act, "", "", Asker("ada", shown, part), do)
    assert (told.verdict, told.code) == ("failed", "STATE_CHANGED")
    assert re.search(r" UTC, grace: Did it\. Nothing was done\.", told.message)
    assert gateway.act_beside(act, "", "", Asker("ada", shown, f"{part} other"), do).verdict == DONE
    assert gateway.act_beside(act, "", "", Asker("ada", "", part), do).verdict == DONE, "without a question"
    assert len(done) == 3


def _pause(gate: threading.Barrier, names: tuple[str, str], asker: Asker, results: list[ActResult]) -> None:
    gate.wait()
    results.append(get_gateway().act("pause_channel", *names, asker, by=asker.by, reason=asker.by, for_ms=60_000))


def test_of_two_at_the_same_instant_one_is_done(engine: EngineRunner) -> None:
    gateway = get_gateway()
    for _ in range(20):
        place = Place(engine)
        shown = gateway.mark(place.topic, "c")
        gate = threading.Barrier(2)
        results: list[ActResult] = []

        names = (place.topic, "c")
        threads = [
            threading.Thread(target=_pause, args=(gate, names, Asker(user, shown), results))
            for user in ("ada", "grace")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert sorted(result.verdict for result in results) == ["done", "failed"]
        pause_now = place.do("stats", topic=place.topic, include_clients=False).topics[0].channels[0].pause
        assert pause_now.changed_by == ""


def test_the_question_comes_back_with_what_changed_and_then_does_it(
    engine: EngineRunner, ada: Client, grace: Client
) -> None:
    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    Asked(grace, "pause_channel", place).confirm()
    answer = ada.post(late.url, late.form | {"for": "none", "reason": ""}, headers={"X-Fragment": "1"})
    html = unescape(answer.content.decode())
    assert answer.status_code == 409
    assert f"{place.topic}/c changed after this was shown." in html
    assert f"grace: Paused {place.topic}/c for 15m" in html
    assert f"Change the pause of {place.topic}/c" in html
    shown = re.search(r'name="shown" value="([^"]+)"', html)
    assert shown is not None
    again = ada.post(late.url, late.form | {"shown": shown[1], "for": "as it is"}, headers=JSON).json()
    assert again["ok"] is True, again


def test_a_page_without_a_script_shows_the_question_again(engine: EngineRunner, ada: Client, grace: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "empty_channel", place)
    Asked(grace, "empty_channel", place).confirm()
    answer = ada.post(late.url, late.form)
    assert answer.status_code == 409
    assert "grace: Emptied" in unescape(answer.content.decode())


def test_a_wrong_form_keeps_the_mark_of_what_was_shown_first(engine: EngineRunner, ada: Client, grace: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "empty_channel", place)
    Asked(grace, "empty_channel", place).confirm()
    answer = ada.post(late.url, late.form | {"typed_name": "wrong"}, headers={"X-Fragment": "1"})
    assert f'name="shown" value="{late.form["shown"]}"' in answer.content.decode()


def test_what_was_resumed_is_not_resumed_twice_and_says_so(engine: EngineRunner, ada: Client) -> None:
    place = Place(engine)
    place.pause("c")
    url = f"/topics/{place.topic}/c/~unpause/"
    assert ada.post(url, headers=JSON).json()["message"].startswith(f"Resumed {place.topic}/c: ")
    told = ada.post(url, headers=JSON).json()
    assert (told["ok"], told["message"]) == (True, f"{place.topic}/c was resumed already; nothing was changed.")


def test_the_undo_of_an_act_says_what_was_done_since(engine: EngineRunner, ada: Client, grace: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    page = ada.post(late.url, late.form, follow=True).content.decode()
    undo = re.search(r'<a href="([^"]+)" data-dialog>Undo</a>', page)
    assert undo is not None
    assert "changed after this was shown" not in ada.get(unescape(undo[1])).content.decode()
    Asked(grace, "pause_channel", place).confirm()
    told = unescape(ada.get(unescape(undo[1])).content.decode())
    assert f"grace: Changed the pause of {place.topic}/c" in told


def test_of_a_selection_what_changed_is_left_and_the_rest_is_done(
    engine: EngineRunner, ada: Client, grace: Client
) -> None:
    places = [Place(engine) for _ in range(3)]
    names = [f"{place.topic}/c" for place in places]
    html = ada.get("/topics/~selected/pause-channel/", {"on": names}).content.decode()
    hidden = dict(re.findall(r'<input type="hidden" name="(shown)" value="([^"]*)"', html))
    assert set(hidden) == {"shown"}
    still = {"still": "1", **hidden}
    assert ada.get("/topics/~selected/pause-channel/", still).status_code == 204
    Asked(grace, "pause_channel", places[1]).confirm()
    told = ada.get("/topics/~selected/pause-channel/", still)
    assert (told.status_code, told.headers["X-Standing"], list(told.json())) == (200, "several", [names[1]])
    assert f"grace: Paused {names[1]}" in told.json()[names[1]]
    assert ada.get("/topics/~selected/requeue-channel/", still).status_code == 204, "a pause leaves what is in flight"
    told = ada.post("/topics/~selected/pause-channel/", {"on": names, **hidden, "for": "none"}, headers=JSON).json()
    assert [row["ok"] for row in told["results"]] == [True, False, True]
    assert told["results"][1]["code"] == "STATE_CHANGED"
    assert "grace" in told["results"][1]["message"]


def test_an_act_over_http_counts_as_another_operators(engine: EngineRunner, ada: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    host, port = engine.http_address
    asked = Request(f"http://{host}:{port}/channel/pause?topic={place.topic}&channel=c", method="POST")
    with urlopen(asked, timeout=30) as answer:
        assert answer.status == 200
    told = late.confirm()
    assert told["code"] == "STATE_CHANGED"
    assert "a request over the HTTP API from 127.0.0.1:" in told["message"]
    assert f"Paused {place.topic}/c: its consumers get nothing" in told["message"]


def test_a_mark_of_another_start_is_refused(engine: EngineRunner, ada: Client) -> None:
    place = Place(engine)
    late = Asked(ada, "pause_channel", place)
    for shown in ("0-1-1-1", "x", f"{late.form['shown'].partition('-')[0]}-1-x-1"):
        told = ada.post(late.url, late.form | {"shown": shown}, headers=JSON).json()
        assert (told["ok"], told["code"]) == (False, "STATE_CHANGED")
        assert "the server was restarted" in told["message"]


def test_a_deletion_is_told_with_who_did_it(engine: EngineRunner, ada: Client, grace: Client) -> None:
    place = Place(engine)
    Asked(grace, "delete_channel", place).confirm()
    answer = ada.get(f"/topics/{place.topic}/c/~pause/", headers={"X-Fragment": "1"})
    assert answer.status_code == 404
    assert f"grace: Deleted {place.topic}/c: removed" in answer.content.decode()


def test_an_open_dialog_hears_whether_its_question_stands(engine: EngineRunner, ada: Client, grace: Client) -> None:
    for act in CHANGING:
        place = Place(engine)
        CASES[act].ready(place)
        late = Asked(ada, act, place)

        def still(late: Asked = late) -> tuple[str, str]:
            asked = {"still": "1", "shown": late.form["shown"]}
            answer = ada.get(late.url, asked, headers={"X-Fragment": "1"})
            assert answer.status_code == (200 if "X-Standing" in answer else 204)
            return answer.get("X-Standing", ""), answer.content.decode()

        assert still() == ("", ""), act
        assert Asked(grace, act, place).confirm()["ok"] is True, act
        found, told = still()
        assert found in ("gone", "changed"), act
        assert "UTC, grace: " in told, (act, told)


def test_the_page_of_what_is_gone_says_who_deleted_it_and_leads_to_the_trash(
    engine: EngineRunner, ada: Client, grace: Client
) -> None:
    place = Place(engine)
    Asked(grace, "delete_channel", place).confirm()
    answer = ada.get(f"/topics/{place.topic}/c/")
    html = unescape(answer.content.decode())
    assert answer.status_code == 404
    assert f"UTC, grace: Deleted {place.topic}/c: removed" in html
    link = re.search(rf'<a href="(/topics/{place.topic}/~trash/\d+/~restore/)" data-dialog>Restore it', html)
    assert link is not None
    assert ada.post(link[1], headers=JSON).json()["ok"] is True
    assert ada.get(f"/topics/{place.topic}/c/").status_code == 200


def test_a_page_without_a_socket_hears_what_became_of_what_it_shows(
    engine: EngineRunner, ada: Client, grace: Client, tmp_path: Path, settings: Any
) -> None:
    settings.DATA_PATH = tmp_path
    token, _ = TokenFile(tmp_path).create("shop", ["publish"], [], expires_ms=0, by="ada", now_ms=1)
    place = Place(engine)
    place.empty()
    place.do("publish", place.topic, [b"after"])
    channel = f"/topics/{place.topic}/c"
    removed = {
        "/trash/": (f"/topics/{place.topic}/~trash/{place.trash}/~delete/", "The trash changed after this was shown."),
        "/tokens/": (f"/tokens/{token.id}/~revoke/", "grace: Revoked the token shop"),
        f"{channel}/~messages/": (f"{channel}/~empty/", f"{place.topic}/c changed after this was shown."),
        f"{channel}/~messages/?find=5": (f"{channel}/~delete/", f"grace: Deleted {place.topic}/c: removed"),
        f"/topics/{place.topic}/~messages/": (f"/topics/{place.topic}/~delete/", f"grace: Deleted {place.topic} with"),
    }
    for page, (url, sentence) in removed.items():
        answer = ada.get(page, follow=True)
        shown = re.search(r'<body [^>]*data-shown="([^"]+)"', answer.content.decode())
        assert (answer.status_code, shown is not None) == (200, True), page
        assert shown is not None
        asked = answer.request["PATH_INFO"], {"still": "1", "shown": shown[1]}
        assert ada.get(*asked, headers={"X-Fragment": "1"}).status_code == 204, page
        typed = url.removeprefix("/topics/").partition("/~")[0]
        assert grace.post(url, {"typed_name": typed}, headers=JSON).json()["ok"] is True, url
        told = ada.get(*asked, headers={"X-Fragment": "1"})
        assert (told.status_code, told["X-Standing"] in ("gone", "changed")) == (200, True), page
        assert "UTC, grace: " in told.content.decode(), page
        assert sentence in told.content.decode(), page


def test_the_page_of_discovery_hears_of_a_tombstone(engine: EngineRunner, ada: Client) -> None:
    shown = re.search(r'data-shown="([^"]+)"', ada.get("/lookup/").content.decode())
    assert shown is not None
    asked = {"still": "1", "shown": shown[1]}
    assert ada.get("/lookup/", asked).status_code == 204
    beside = ActResult(DONE, "Tombstoned b:4151 for orders.")
    get_gateway().act_beside("tombstone_producer", "orders", "", Asker("grace", "", "node b:4151"), lambda: beside)
    told = ada.get("/lookup/", asked).content.decode()
    assert told.startswith("The producers in nsqlookupds changed after this was shown.")
    assert told.endswith("UTC, grace: Tombstoned b:4151 for orders.")


def test_an_open_dialog_reads_nothing_but_the_mark_while_its_question_stands(
    engine: EngineRunner, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(engine)
    place.pause("c")
    late = Asked(ada, "unpause_channel", place)
    asked: list[str] = []
    calls = engine.calls

    def counted(what: str, call: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: asked.append(what) or call(*args)

    monkeypatch.setattr(calls, "run", counted("a call", calls.run))
    monkeypatch.setattr(calls, "check", counted("check", calls.check))
    answer = ada.get(late.url, {"still": "1", "shown": late.form["shown"]}, headers={"X-Fragment": "1"})
    assert (answer.status_code, asked) == (204, ["check", "a call"])
