"""Tokens of programs: a list, making one, whose secret is shown once, and revoking one."""

from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from admin_console.answers.refusal import wants_json
from admin_console.gateway.gateway import DONE, ActResult, NoEngineError, why_no_engine
from admin_console.gateway.tokens import (
    NAME_LENGTH_MAX,
    PERMISSIONS,
    TokensUnreadableError,
    TokenView,
    create_token,
    list_tokens,
    revoke_token,
)
from admin_console.views.act_page import ActPage
from admin_console.views.audited_act import ComplaintError, NotThereError
from admin_console.views.question import Choice, Field, Question
from admin_console.views.standing import stands
from admin_console.vocabulary import units
from admin_console.vocabulary.times import column_time

_DAY_MS = 86_400_000
_VALID_DAYS = (0, 1, 7, 30, 90, 365)
_TOPICS_LENGTH_MAX = 2_000
_TONES = {"valid": "ok", "expired": "warning", "revoked": ""}


@dataclass(frozen=True, slots=True)
class TokenLine:
    """One token as the page shows it."""

    token: TokenView
    tone: str
    permissions: str
    created: str
    expires: str
    used: str


@require_safe
@stands("revoke_token", "The list of tokens")
def tokens_page(request: HttpRequest) -> HttpResponse:
    if sentence := why_no_engine("create_token"):
        raise NoEngineError(sentence)
    complaint = ""
    tokens: list[TokenView] | None = None
    try:
        tokens = list_tokens(settings.DATA_PATH)
    except TokensUnreadableError as exc:
        complaint = str(exc)
    context = {
        "lines": [_line(token) for token in tokens or ()],
        "are_needed": tokens is not None,
        "complaint": complaint,
        "create_url": reverse("create_token"),
    }
    return render(request, "pages/tokens.html", context)


def _line(token: TokenView) -> TokenLine:
    return TokenLine(
        token,
        _TONES[token.state],
        ", ".join(token.permissions),
        column_time(token.created_ms),
        column_time(token.expires_ms) if token.expires_ms else "never",
        column_time(token.used_ms) if token.used_ms else "never",
    )


class _TokenAct(ActPage):
    @property
    def page_url(self) -> str:
        return reverse("tokens")

    def by(self) -> str:
        return self.request.user.get_username()


class CreateToken(_TokenAct):
    """The answer to the form has the secret: it is in no cookie, no session and no later page."""

    routes = {"create_token": "tokens/~create/"}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self._secret = ""

    @property
    def name(self) -> str:
        return "the tokens"

    def question(self) -> Question:
        form = self.request.POST
        chosen = form.getlist("allow")
        days = form.get("valid_days", "0")
        consequences = ["Its secret is shown once, on the next page: copy it there."]
        try:
            is_first = list_tokens(settings.DATA_PATH) is None
        except TokensUnreadableError as exc:
            raise NotThereError(str(exc)) from exc
        if is_first:
            consequences.append(
                "It is the first one: from now on programs must send a token; those without one are refused or "
                "disconnected within a second, unless the server was started with --allow-anonymous."
            )
        return self.pose(
            "Create a token",
            consequences,
            [
                Field(
                    "token_name",
                    "Name",
                    value=form.get("token_name", "")[:NAME_LENGTH_MAX],
                    help="Of the program or team that gets it; the audit list shows it.",
                    is_required=True,
                    length_max=NAME_LENGTH_MAX,
                ),
                Field(
                    "allow",
                    "Permissions",
                    kind="checks",
                    choices=tuple(Choice(value, words, value in chosen) for value, words in PERMISSIONS),
                ),
                Field(
                    "topics",
                    "Topics",
                    value=form.get("topics", "")[:_TOPICS_LENGTH_MAX],
                    help="Such as: orders.* logs, where * stands for any characters. Empty: all topics.",
                    length_max=_TOPICS_LENGTH_MAX,
                ),
                Field(
                    "valid_days",
                    "Expires",
                    kind="select",
                    choices=tuple(
                        Choice(
                            str(one),
                            f"after {one} days" if one > 1 else "after a day" if one else "never",
                            str(one) == days,
                        )
                        for one in _VALID_DAYS
                    ),
                ),
            ],
            button="Create token",
        )

    def details(self) -> dict[str, Any]:
        form = self.request.POST
        days = form.get("valid_days", "0")
        if days not in map(str, _VALID_DAYS):
            raise ComplaintError(f"{days[:20]!r} is no time to expire after. Nothing was done.")
        if not form.get("token_name", "").strip():
            raise ComplaintError("The token needs a name. Nothing was done.")
        if not form.getlist("allow"):
            raise ComplaintError("Choose the token's permissions. Nothing was done.")
        return {
            "name": form["token_name"].strip()[: NAME_LENGTH_MAX + 1],
            "permissions": form.getlist("allow")[:10],
            "topics": form.get("topics", "")[:_TOPICS_LENGTH_MAX].replace(",", " ").split(),
            "valid_ms": int(days) * _DAY_MS,
        }

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"{details['name']}: {', '.join(details['permissions'])} on {', '.join(details['topics']) or '*'}"[:200]

    def do(self, details: dict[str, Any]) -> ActResult:
        result, self._secret = create_token(settings.DATA_PATH, by=self.by(), **details)
        return result

    def _answer(self, result: ActResult) -> HttpResponse:
        if result.verdict != DONE:
            return self._refused_in_dialog(result) if not wants_json(self.request) else super()._answer(result)
        if wants_json(self.request):
            return JsonResponse({"ok": True, "message": result.message, "secret": self._secret})
        context = {"sentence": result.message, "secret": self._secret}
        return render(self.request, "pages/token_made.html", context)


class RevokeToken(_TokenAct):
    routes = {"revoke_token": "tokens/<slug:token>/~revoke/"}

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().setup(request, *args, **kwargs)
        self.token_id: str = kwargs["token"]

    @property
    def part(self) -> str:
        return f"token {self.token_id}"

    @property
    def name(self) -> str:
        return f"the token {self.token().name}"

    def token(self) -> TokenView:
        """Raises NotThereError."""
        try:
            tokens = list_tokens(settings.DATA_PATH) or ()
        except TokensUnreadableError as exc:
            raise NotThereError(str(exc)) from exc
        found = next((token for token in tokens if token.id == self.token_id), None)
        if found is None:
            raise NotThereError(f"There is no token {self.token_id}.")
        return found

    def question(self) -> Question:
        token = self.token()
        last = (
            f"It was last used at {units.moment(token.used_ms)} UTC."
            if token.used_ms
            else "No use is recorded yet; the server records uses once a minute."
        )
        effect = (
            f"It expired at {units.moment(token.expires_ms)} UTC by this server's clock, and is refused. Once "
            "revoked, it stays refused even if that clock is set back."
            if token.state == "expired"
            else "Programs that have it are refused, and their connections end within a second."
        )
        return self.pose(
            f"Revoke the token {token.name}",
            [
                f"It may {', '.join(token.permissions)} on {', '.join(token.topics)}. {last}",
                f"{effect} This can't be undone.",
            ],
            button=f"Revoke {token.name}",
            is_dangerous=True,
        )

    def audit_detail(self, details: dict[str, Any]) -> str:
        return self.token().name

    def do(self, details: dict[str, Any]) -> ActResult:
        return self.done_beside(lambda: revoke_token(settings.DATA_PATH, self.token_id, by=self.by()))
