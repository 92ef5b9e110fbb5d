"""The question before an act: a page without JavaScript, a dialog's content with it."""

from dataclasses import dataclass, field, replace

from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render

from admin_console.answers.drafts import is_draft
from admin_console.answers.refusal import wants_fragment
from admin_console.vocabulary.times import field_time

# The field of a form, or the parameter of a link, with the mark of the state that was shown.
SHOWN = "shown"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several answers to a field."""

    value: str
    label: str
    is_chosen: bool = False


@dataclass(frozen=True, slots=True)
class Field:
    """One thing to fill in. kind: text, time (UTC), area (of so many `rows`), hidden, or radio, checks or
    select, which have `choices`."""

    name: str
    label: str
    kind: str = "text"
    value: str = ""
    help: str = ""
    is_required: bool = False
    length_max: int = 200
    choices: tuple[Choice, ...] = ()
    rows: int = 6

    @property
    def time_value(self) -> str:
        return field_time(self.value)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node that does the act. words: its messages, and the undo there. expected: by field, a number that the question
    shows, such as its messages."""

    name: str
    words: str
    expected: tuple[tuple[str, int], ...] = ()
    is_ticked: bool = True


@dataclass(frozen=True, slots=True)
class Question:
    """Title and button name verb and object; `consequences` are sentences with counts. button: "" where the act can't
    be done now; then a consequence gives the reason. dismiss: the label beside it, where the act itself is to cancel.

    selected: the names that an act on several is about, a line each, and `rows` their lines on the page. nodes: those
    that do it; empty for this server alone.
    """

    title: str
    button: str
    post_url: str
    cancel_url: str
    dismiss: str = "Cancel"
    consequences: list[str] = field(default_factory=list)
    fields: list[Field] = field(default_factory=list)
    is_dangerous: bool = False
    is_small: bool = False  # shown beside the page, which stays in use
    selected: str = ""
    rows: list[str] = field(default_factory=list)
    nodes: list[NodeRow] = field(default_factory=list)


def show_question(
    request: HttpRequest,
    question: Question,
    *,
    complaints: tuple[str, ...] = (),
    next_url: str = "",
    complaint_status: int = 400,
    shown: str = "",
    is_filled_in: bool = False,
) -> HttpResponse:
    """Render the question; with complaints about wrong input (400), or after the act failed.

    shown: the mark of the state that it shows, from `Gateway.mark`. With the header X-Fragment the answer is the
    dialog's content, without the page around it. Fields typed before a session ended are filled in.
    is_filled_in: so are those of this request, where nothing is wrong with them.
    """
    has_draft = is_draft(request)
    if has_draft or is_filled_in:
        question = replace(question, fields=[_filled(one, request.POST) for one in question.fields])
    template = "acts/_confirm.html" if wants_fragment(request) else "acts/confirm.html"
    context = {"question": question, "complaints": complaints, "next": next_url, "shown": shown, "has_draft": has_draft}
    return render(request, template, context, status=complaint_status if complaints else 200)


def _filled(field: Field, typed: QueryDict) -> Field:
    """The field as it was filled in. A choice that there is no more is left as the question has it."""
    values = typed.getlist(field.name)
    if field.kind == "checks" or any(choice.value in values for choice in field.choices):
        return replace(field, choices=tuple(replace(one, is_chosen=one.value in values) for one in field.choices))
    if field.choices or field.kind == "hidden" or len(values) != 1:
        return field  # of several, such as selected messages, the question has made its own text
    return replace(field, value=values[0])


def reason_field(value: str = "") -> Field:
    """The reason for the act, which the audit list records."""
    return Field("reason", "Reason", value=value, help="Optional; stored in the audit list.")


def typed_name_field(name: str) -> Field:
    """The name of the object, to be typed before messages are lost."""
    return Field(
        "typed_name", f"Type {name} to confirm", is_required=True, length_max=140, help="Exactly as it is written."
    )
