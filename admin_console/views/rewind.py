"""Rewinding a channel: a preview first, then exactly that, even if messages are published or consumed in between.

Over nodes each has its own preview, and goes to its own offset. A node without a preview, such as one of an older
version, is not ticked; ticked, it goes to the place as its log has it then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse

from admin_console.answers.refusal import wants_json
from admin_console.gateway.gateway import ChannelStats, ReadRefusedError, SeekPreview, Target
from admin_console.gateway.sentences import counted
from admin_console.messages.message_filter import OFFSET_DIGITS_MAX, is_offset, time_ns_of
from admin_console.views.act_page import CHANNEL, ActPage
from admin_console.views.audited_act import ComplaintError, by_node_field
from admin_console.views.on_nodes import NODE, Holder, OnNodes
from admin_console.views.question import SHOWN, Choice, Field, NodeRow, Question
from admin_console.views.rewind_previews import IN_FLIGHT, consequences_of, previews_of, words_of

_PLACES = {
    "start": "the oldest message in the log",
    "end": "the end: skip everything before it",
    "offset": "an offset",
    "time": "a time",
}
_ON, _BACK = "on", "back"
# Fields of a node's row: the offset of its preview, and whether it is forward.
_AT, _ONWARD = "confirmed", "onward"


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a preview, as the form carries it: the chosen place, its offset, and the direction.

    is_on: forward. The channel has neither delivered nor finished a message from `offset` on, so going there skips and
    repeats nothing.
    """

    choice: str
    offset: int
    is_on: bool

    def text(self) -> str:
        return f"{_ON if self.is_on else _BACK} {self.choice}"


class RewindChannel(ActPage):
    routes = {"rewind_channel": f"{CHANNEL}/~rewind/"}

    _preview: SeekPreview | None = None
    _is_previewed = False  # over nodes
    _confirmed: Shown

    @cached_property
    def _is_over_nodes(self) -> bool:
        """Whether another node is among those that rewind, or was in the preview that is confirmed."""
        if self.nodes is None:
            return False
        return by_node_field(_AT) in self.request.POST or any(not one.place.is_embedded for one in self.nodes.chosen)

    @cached_property
    def _previews(self) -> dict[str, SeekPreview | str]:
        """The preview at each ticked node, or the reason why it has none, without a full stop. Raises
        ComplaintError."""
        assert self.nodes is not None
        return previews_of(self.nodes.chosen, self.topic, self.channel, self._target())

    def question(self) -> Question:
        if self._is_over_nodes:
            return self._of_previews() if self._is_previewed else self._over_nodes()
        if self._preview is None:
            return self._where()
        preview, shown = self._preview, self._shown(self._preview)
        hidden = {name: self._given(name) for name in ("place", "offset", "at")}
        hidden |= {"confirmed": str(shown.offset), "previewed": shown.text()}
        return self.pose(
            f"Rewind {self.name}",
            [*consequences_of(preview, is_on=shown.is_on), *self._of_quarantined(is_on=shown.is_on)],
            [Field(name, name, kind="hidden", value=value) for name, value in hidden.items()],
            button=f"Rewind {self.name} to offset {shown.offset:,}",
            is_dangerous=True,
        )

    def _of_quarantined(self, *, is_on: bool) -> list[str]:
        """Sentences about quarantined messages."""
        count = self.channel_stats().quarantined_count
        if not count:
            return []
        held = f"The channel has {counted(count, 'quarantined message')}"
        if is_on:
            return [
                f"{held}: those before that offset are skipped, too, and the others stay quarantined, not delivered."
            ]
        return [f"{held}: none stays quarantined. Those from that offset on are delivered again, the others skipped."]

    def _where(self) -> Question:
        """The first step, the choice of a place. The second one is the preview."""
        depth = self.channel_stats().depth
        return self.pose(
            f"Rewind {self.name}",
            [
                f"The channel has a depth of {depth:,} now. Going back repeats messages; going forward skips them.",
                IN_FLIGHT,
                "The preview shows the result in counts. Nothing is done before you confirm it.",
            ],
            self._place_fields(),
            button="Preview",
        )

    def _over_nodes(self) -> Question:
        """The first step over nodes; the rows have the counts of now."""
        return self.pose(
            f"Rewind {self.name}",
            [
                "Each node goes to this place in its own log. Going back repeats messages; going forward skips them.",
                IN_FLIGHT,
                "The preview shows each node's result in counts. Nothing is done before you confirm it.",
                "An offset is a place in the log of one node: tick one for it.",
            ],
            self._place_fields(),
            button="Preview",
        )

    def _of_previews(self) -> Question:
        """The second step over nodes: each row is a node's preview."""
        fields = {name: self._given(name) for name in ("place", "offset", "at")} | {"previewed": self._choice()}
        assert self.nodes is not None
        is_lacking = any(not isinstance(self._previews.get(one.name), SeekPreview) for one in self.nodes.able)
        return self.pose(
            f"Rewind {self.name}",
            [
                "Each node goes to its offset, also when messages are published or consumed in the meantime.",
                IN_FLIGHT,
                *([_WITHOUT_PREVIEW] if is_lacking else []),
            ],
            [Field(name, name, kind="hidden", value=value) for name, value in fields.items()],
            is_dangerous=True,
        )

    def posed(self) -> Question:
        question = super().posed()
        ticked = [row.name for row in question.nodes if row.is_ticked]
        if not self._is_previewed or not question.nodes or len(ticked) == len(question.nodes):
            return question
        # A node without a preview is not ticked.
        where = f" on {ticked[0] if len(ticked) == 1 else counted(len(ticked), 'node')}" if ticked else ""
        return replace(question, title=f"Rewind {self.name}{where}")

    def row_of(self, nodes: OnNodes, holder: Holder) -> NodeRow:
        row = super().row_of(nodes, holder)
        if not self._is_previewed:
            return row
        preview = self._previews.get(holder.name, "it was not ticked")
        if isinstance(preview, str):
            return replace(row, words=f"{row.words}; no preview: {preview}", is_ticked=False)
        is_on = self._shown(preview).is_on
        stats = holder.stats(self.channel)
        quarantined = stats.quarantined_count if isinstance(stats, ChannelStats) else 0
        words = words_of(preview, is_on=is_on, quarantined=quarantined)
        return replace(row, words=words, expected=((_AT, preview.offset), (_ONWARD, int(is_on))))

    def _place_fields(self) -> list[Field]:
        chosen = self._given("place") or "start"
        places = tuple(Choice(value, label, value == chosen) for value, label in _PLACES.items())
        offset, at = self._given("offset"), self._given("at")
        return [
            Field("place", "Rewind to", kind="select", choices=places),
            Field("offset", "Offset", value=offset, help="For “an offset”.", length_max=OFFSET_DIGITS_MAX),
            Field("at", "Time", "time", at, help="For “a time”."),
        ]

    def again_url(self) -> str:
        given = {name: self._given(name) for name in ("place", "offset", "at")}
        return f"{self.url}?{urlencode({name: text for name, text in given.items() if text})}"

    def _given(self, name: str) -> str:
        return str(self.request.POST.get(name, "") or self.request.GET.get(name, "")).strip()[:40]

    def _choice(self) -> str:
        """The place as it was chosen, to be compared with that of the preview."""
        place = self._given("place")
        return f"{place} {self._given({'offset': 'offset', 'time': 'at'}.get(place, ''))}".strip()

    def _shown(self, preview: SeekPreview) -> Shown:
        is_on = self._given("place") == "end" or preview.offset >= preview.next_offset
        return Shown(self._choice(), preview.offset, is_on)

    def post(self, request: HttpRequest, **_: str) -> HttpResponse:
        if self.nodes is not None and not self.nodes.chosen:
            return super().post(request)
        if self._is_over_nodes:
            return self._post_over_nodes(request)
        complaints: tuple[str, ...] = ()
        try:
            if request.POST.get("confirmed"):
                self._confirmed = self._still_true()
                return super().post(request)
        except ComplaintError as exc:
            complaints = exc.sentences
        try:
            self._preview = self._previewed(self._target())
        except ComplaintError as exc:
            complaints = exc.sentences
        if wants_json(request):
            return self._unconfirmed(complaints)
        return self.ask_again(complaints)

    def _post_over_nodes(self, request: HttpRequest) -> HttpResponse:
        complaints: tuple[str, ...] = ()
        try:
            # For an offset that no log has, or several have, there is nothing to preview.
            self._details_over_nodes()
            self._is_previewed = True
            if "previewed" in request.POST:
                if request.POST["previewed"] == self._choice():
                    return super().post(request)
                complaints = (_OTHER_PLACE,)
        except ComplaintError as exc:
            complaints = exc.sentences
        if wants_json(request):
            return self._unconfirmed(complaints)
        return self.ask_again(complaints)

    def _unconfirmed(self, complaints: tuple[str, ...]) -> JsonResponse:
        """The preview for a script: sent once more with the fields of `form`, it is confirmed."""
        shown = self.gateway.mark(self.topic, self.channel)
        question = self.posed()
        form: dict[str, Any] = {field.name: field.value for field in question.fields if field.kind == "hidden"}
        body = {
            "ok": False,
            "message": " ".join(complaints or question.consequences),
            "code": "NOT_CONFIRMED",
            "form": form | {SHOWN: shown},
        }
        if question.nodes:
            ticked = [row.name for row in question.nodes if row.is_ticked]
            body["form"] = form | {SHOWN: shown, NODE: ticked}
            body["nodes"] = [
                {"node": row.name, "message": row.words, "is_ticked": row.is_ticked} for row in question.nodes
            ]
        return JsonResponse(body, status=400 if complaints else 409)

    def _still_true(self) -> Shown:
        """The confirmed preview. Raises ComplaintError where the act can't be done any more as shown."""
        offset_text = self.request.POST["confirmed"]
        if not is_offset(offset_text):
            raise ComplaintError(f"{offset_text[:40]!r} is not an offset: a whole number from 0. Nothing was done.")
        offset = int(offset_text)
        now = self._previewed(Target(offset=offset))
        previewed = self.request.POST.get("previewed", "")
        word, _, choice = previewed.partition(" ")
        shown = Shown(choice, offset, word == _ON) if previewed else self._unmarked(offset, now)
        if shown.choice != self._choice():
            raise ComplaintError(_OTHER_PLACE)
        if offset < now.oldest_offset and not shown.is_on:
            raise ComplaintError(
                f"The log has removed the messages before offset {now.oldest_offset:,} since the preview: the channel "
                f"can't go back to {offset:,}. Nothing was done. The preview below is for the messages that are left."
            )
        return shown

    def _unmarked(self, offset: int, now: SeekPreview) -> Shown:
        """For a confirmation without its preview's place: the place it names, or none."""
        fits = self._given("place") == "end" or self._previewed(self._target()).offset == offset
        return Shown(self._choice() if fits else "", offset, self._shown(now).is_on)

    def _previewed(self, target: Target) -> SeekPreview:
        try:
            return self.gateway.seek_preview(self.topic, self.channel, target)
        except ReadRefusedError as exc:
            raise ComplaintError(str(exc)) from exc

    def _target(self) -> Target:
        place = self._given("place")
        if place == "offset":
            text = self._given("offset")
            if not is_offset(text):
                raise ComplaintError(f"{text!r} is not an offset: a whole number from 0.")
            return Target(offset=int(text))
        if place == "time":
            try:
                return Target(time_ns=time_ns_of(self._given("at")))
            except ValueError as exc:
                raise ComplaintError(str(exc)) from exc
        if place not in _PLACES:
            raise ComplaintError(f"There is no place {place!r}: it can be {', '.join(_PLACES)}.")
        return Target(word=place)

    def details(self) -> dict[str, Any]:
        if self.nodes is not None and not self.nodes.chosen:
            return {}  # none is ticked, or none can: it is refused
        if self._is_over_nodes:
            return self._details_over_nodes()
        shown = self._confirmed
        # The engine checks once more in the same turn, and refuses an act that it can't do exactly as shown.
        return {"target": Target(offset=shown.offset), "keep_finished": shown.is_on, "is_exact": not shown.is_on}

    def _details_over_nodes(self) -> dict[str, Any]:
        """The place, for nodes without a preview; `details_at` has the offset of the others."""
        assert self.nodes is not None
        target = self._target()
        if target.offset is not None and len(self.nodes.chosen) > 1:
            raise ComplaintError("An offset is a place in the log of one node: tick one. Nothing was done.")
        return {"target": target}

    def details_at(self, holder: Holder) -> Mapping[str, Any]:
        offset = self.sent_by_node(_AT).get(holder.name, "")
        if not self._is_over_nodes or not is_offset(offset):
            return {}
        is_on = self.sent_by_node(_ONWARD).get(holder.name) == "1"
        return {"target": Target(offset=int(offset)), "keep_finished": is_on, "is_exact": not is_on}

    def audit_detail(self, details: dict[str, Any]) -> str:
        target = details.get("target")
        if target is None:
            return ""
        return f"offset {target.offset}" if target.offset is not None else self._choice()


_OTHER_PLACE = "You chose another place after the preview. Nothing was done. The preview below is for that place."
_WITHOUT_PREVIEW = (
    "A node without a preview is not ticked. If you tick it, it goes to the place as its own log has it at that moment."
)
