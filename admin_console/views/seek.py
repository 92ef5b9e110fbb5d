"""Moving a channel over its topic, with a preview of what that delivers: asked twice, since it can't be taken back."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from admin_console.gateway.gateway import ReadRefusedError, SeekPreview, Target
from admin_console.gateway.sentences import counted
from admin_console.views.act_page import ActPage, ComplaintError
from admin_console.views.messages import OFFSET_DIGITS_MAX, time_ns_of
from admin_console.views.question import Choice, Field, Question, ask, reason_field

_PLACES = {
    "start": "the oldest message there is",
    "end": "the end: skip everything that waits",
    "offset": "an offset",
    "time": "a time (UTC)",
}


class SeekChannel(ActPage):
    action = "seek_channel"
    _preview: SeekPreview | None = None

    def question(self) -> Question:
        channel = self.channel_stats()
        chosen = self._given("place") or "start"
        preview = self._preview
        waits = counted(channel.depth, "message")
        if preview is None:
            consequences = [
                f"{waits} waiting now. Moving back delivers messages again; moving on skips them for good.",
                "What is in flight is taken from its consumers: their FIN comes too late.",
                "You will see what it means before it is done.",
            ]
        else:
            there = f"{preview.oldest_offset:,} to {preview.end_offset:,}"
            then, now = counted(preview.depth, "message"), counted(preview.depth_now, "message")
            consequences = [
                f"The channel goes to offset {preview.offset:,} (there are {there}).",
                f"{then} will be delivered from there on; {now} waiting, deferred or in flight now.",
                "What is in flight is taken from its consumers: their FIN comes too late.",
            ]
        fields = [
            Field(
                "place",
                "Move to",
                kind="select",
                choices=tuple(Choice(value, label, value == chosen) for value, label in _PLACES.items()),
            ),
            Field(
                "offset", "Offset", value=self._given("offset"), help="For “an offset”.", length_max=OFFSET_DIGITS_MAX
            ),
            Field("at", "Time", value=self._given("at"), help="For “a time”, such as 2026-03-01T14:30.", length_max=40),
            reason_field(self.request.POST.get("reason", "")),
        ]
        if preview is not None:
            sure = f"Yes: {counted(preview.depth, 'message')} from offset {preview.offset:,} on"
            fields.append(
                Field("confirmed", "Is that meant?", kind="radio", choices=(Choice(str(preview.offset), sure),))
            )
        return Question(
            title=f"Move {self.name}",
            button=f"Move {self.name}" if preview is not None else "See what it means",
            post_url=self.url,
            cancel_url=self.page_url,
            consequences=consequences,
            fields=fields,
            is_dangerous=True,
        )

    def _given(self, name: str) -> str:
        return str(self.request.POST.get(name, "") or self.request.GET.get(name, "")).strip()[:40]

    def post(self, request: HttpRequest, **_: str) -> HttpResponse:
        try:
            preview = self._previewed()
        except ComplaintError as exc:
            return ask(request, self.question(), complaints=exc.sentences, next_url=self._next_url())
        if request.POST.get("confirmed") != str(preview.offset):
            self._preview = preview
            return ask(request, self.question(), next_url=self._next_url())
        return super().post(request)

    def _previewed(self) -> SeekPreview:
        try:
            return self.gateway.seek_preview(self.topic, self.channel, self._target())
        except ReadRefusedError as exc:
            raise ComplaintError(str(exc)) from exc

    def _target(self) -> Target:
        place = self._given("place")
        if place == "offset":
            text = self._given("offset")
            if not text.isdigit() or len(text) > OFFSET_DIGITS_MAX:
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
        # What was shown is what is done, though more may have been published since.
        return {"target": Target(offset=int(self.request.POST["confirmed"]))}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"offset {details['target'].offset}"


seek_channel = SeekChannel.as_view()
