"""Logging in, logging out, changing one's password."""

import math

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import authenticate, login, logout, update_session_auth_hash
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from admin_console.accounts import known_browser, session_age
from admin_console.accounts.failed_log_ins import FAILED_LOG_INS, Reason
from admin_console.accounts.first_admin import forget_password_file
from admin_console.accounts.hashing_queue import TooBusyError, hashing
from admin_console.accounts.models import CLOCKS, USERNAME_LENGTH_MAX, User
from admin_console.accounts.throttle import throttle
from admin_console.answers.drafts import draft_of, keep
from admin_console.answers.next_page import next_page
from admin_console.audit.models import Verdict
from admin_console.audit.record import record_event
from admin_console.pacing.pace import PACE
from admin_console.permissions.allowed import CheckedRequest

PASSWORD_LENGTH_MAX = 1024  # longer texts would make hashing slow

_WRONG = "This name and password do not go together."
_BUSY = "Too many people are logging in at this moment. Try again in a few seconds."


def _address(request: HttpRequest) -> str:
    return request.META.get("REMOTE_ADDR") or ""


def _wait_sentence(wait_s: int) -> str:
    if wait_s < 120:
        return f"Too many attempts. Wait {wait_s} second{'' if wait_s == 1 else 's'} and try again."
    return f"Too many attempts. Wait {math.ceil(wait_s / 60)} minutes and try again."


def _safe_next(request: HttpRequest) -> str:
    """The page to go to after the log-in: always one of ours."""
    return next_page(request) or reverse(settings.LOGIN_REDIRECT_URL)


@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    """The form, and its answer. Attempts are throttled before anything is hashed."""
    if request.method == "GET":
        if request.user.is_authenticated:
            return HttpResponseRedirect(_safe_next(request))
        return _login_page(request)
    name = request.POST.get("username", "").strip()[:USERNAME_LENGTH_MAX]
    password = request.POST.get("password", "")
    if not name or not password or len(password) > PASSWORD_LENGTH_MAX:
        return _login_page(request, name=name, error="Enter your name and your password.", status=400)
    address, browser = _address(request), known_browser.browser_of(request, name)
    if wait_s := throttle.begin(name, address, browser):
        FAILED_LOG_INS.note(Reason.THROTTLED)
        response = _login_page(request, name=name, error=_wait_sentence(wait_s), status=429)
        response["Retry-After"] = str(wait_s)
        return response
    try:
        with PACE.away(), hashing.turn(is_known=bool(browser)):
            user = authenticate(request, username=name, password=password)
    except TooBusyError:
        throttle.not_checked(name, address, browser)
        FAILED_LOG_INS.note(Reason.BUSY)
        return _login_page(request, name=name, error=_BUSY, status=503)
    if user is None:
        FAILED_LOG_INS.note(Reason.PASSWORD)
        record_event(request, "log_in", actor=name, detail=name, verdict=Verdict.FAILED)
        return _login_page(request, name=name, error=_WRONG, status=400)
    throttle.succeeded(name, address, browser)
    # A new session, also for the same user: a key that was planted or read before becomes useless.
    request.session.flush()
    login(request, user)
    session_age.start(request.session)
    record_event(request, "log_in", detail=user.username)
    if forget_password_file(settings.DATA_PATH, user):
        messages.info(request, "The file with your first password was removed: store the password, or change it now.")
    keep(request, draft_of(request))
    response = HttpResponseRedirect(_safe_next(request))
    known_browser.remember(request, response, name)
    return response


def _login_page(request: HttpRequest, *, name: str = "", error: str = "", status: int = 200) -> HttpResponse:
    wanted = request.POST.get("next") or request.GET.get("next", "")
    # Sent here from a page, in a browser that was logged in: its cookie outlives the session's.
    is_over = not error and bool(wanted) and known_browser.is_known(request)
    context = {"name": name, "error": error, "next": wanted, "is_over": is_over, "draft": draft_of(request)}
    return render(request, "accounts/login.html", context, status=status)


@require_POST
def log_out(request: CheckedRequest) -> HttpResponse:
    """End the session."""
    record_event(request, "log_out", detail=request.user.username)
    logout(request)
    return HttpResponseRedirect(reverse("login"))


@sensitive_post_parameters("current", "new", "again")
@require_http_methods(["GET", "POST"])
def change_password(request: CheckedRequest) -> HttpResponse:
    """Change one's own password; ends one's other sessions."""
    if not request.user.has_usable_password():
        errors = ["Your account has no password here: a proxy logs you in."]
        status = 200 if request.method == "GET" else 400
        return render(request, "accounts/password.html", {"errors": errors}, status=status)
    if request.method == "GET":
        return render(request, "accounts/password.html", {"errors": []})
    # A line of its own in the throttle: only requests of this session fill it.
    user, address, browser = request.user, _address(request), f"session {request.session.session_key}"
    current, new, again = (
        request.POST.get(name, "")[: PASSWORD_LENGTH_MAX + 1] for name in ("current", "new", "again")
    )
    if errors := _complaints(user, new, again):
        return render(request, "accounts/password.html", {"errors": errors}, status=400)
    # The session may be stolen: guessing the password here is throttled like a log-in.
    if wait_s := throttle.begin(user.username, address, browser):
        return render(request, "accounts/password.html", {"errors": [_wait_sentence(wait_s)]}, status=429)
    try:
        with PACE.away(), hashing.turn(is_known=True):
            if not user.check_password(current):
                record_event(request, "change_password", detail=user.username, verdict=Verdict.FAILED)
                errors = ["This is not your current password."]
                return render(request, "accounts/password.html", {"errors": errors}, status=400)
            user.set_password(new)
    except TooBusyError:
        throttle.not_checked(user.username, address, browser)
        return render(request, "accounts/password.html", {"errors": [_BUSY]}, status=503)
    throttle.succeeded(user.username, address, browser)
    user.save(update_fields=["password"])
    update_session_auth_hash(request, user)
    record_event(request, "change_password", detail=user.username)
    removed = forget_password_file(settings.DATA_PATH, user)
    sentence = "Your password is changed, and your other sessions are ended."
    if removed:
        sentence += " The file with the first one was removed."
    messages.success(request, sentence)
    return HttpResponseRedirect(reverse("overview"))


@require_POST
def choose_clock(request: CheckedRequest) -> HttpResponse:
    """Store the field `clock`, "local" or "utc", with the user. The page that sends it shows it already: 204."""
    wanted = request.POST.get("clock", "")
    if wanted not in dict(CLOCKS):
        sentence = f"{wanted[:40]!r} is not a clock; it can be local or utc. Nothing was changed."
        return HttpResponse(sentence, content_type="text/plain; charset=utf-8", status=400)
    request.user.clock = wanted
    request.user.save(update_fields=["clock"])
    return HttpResponse(status=204)


def _complaints(user: User, new: str, again: str) -> list[str]:
    if len(new) > PASSWORD_LENGTH_MAX:
        return [f"The new password has more than {PASSWORD_LENGTH_MAX} characters."]
    if new != again:
        return ["The two new passwords differ."]
    try:
        validate_password(new, user)
    except ValidationError as exc:
        return list(exc.messages)
    return []
