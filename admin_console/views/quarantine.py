"""Acts on the quarantine of a channel: max attempts, redrive, cancel a redrive."""

from typing import Any

from admin_console.gateway.gateway import MAX_ATTEMPTS_MOST, RATE_DEFAULT, RATE_MAX
from admin_console.gateway.sentences import counted
from admin_console.views.act_page import CHANNEL, ActPage
from admin_console.views.audited_act import ComplaintError
from admin_console.views.question import Choice, Field, Question

_ATTEMPTS = {
    "anew": "Reset their attempts: they are tried as often as new messages",
    "keep": "Keep their attempts: the next failure quarantines them again",
}
_ATTEMPTS_OFF = {"anew": "Reset their attempts", "keep": "Keep their attempts"}


class SetMaxAttempts(ActPage):
    routes = {"set_max_attempts": f"{CHANNEL}/~max-attempts/"}

    def question(self) -> Question:
        now = self.channel_stats().quarantine.max_attempts
        value = self.request.POST.get("max_attempts", str(now))
        return self.pose(
            f"Set max attempts of {self.name}",
            [
                f"It is {now:,} now." if now else "It is off now.",
                "A message that comes back after this many deliveries is quarantined, and blocks no other.",
                "It comes back when it is requeued, times out, or its consumer's connection is lost.",
                "A client library that gives up after its own number of attempts finishes the message: it is lost.",
            ],
            [
                Field(
                    "max_attempts",
                    "Max attempts",
                    value=value,
                    help=f"1 to {MAX_ATTEMPTS_MOST:,}; 0 for off.",
                    is_required=True,
                    length_max=5,
                )
            ],
        )

    def details(self) -> dict[str, Any]:
        most = _number(self.request.POST.get("max_attempts", ""), "Max attempts", 0, MAX_ATTEMPTS_MOST)
        return {"max_attempts": most}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return str(details["max_attempts"])


class RedriveChannel(ActPage):
    routes = {"redrive_channel": f"{CHANNEL}/~redrive/"}

    def question(self) -> Question:
        channel = self.channel_stats()
        is_limited = channel.quarantine.max_attempts > 0
        chosen = self.request.POST.get("attempts", "anew")
        return self.pose(
            f"Redrive {self.name}",
            [
                f"{counted(channel.quarantined_count, 'quarantined message')} will wait again in this channel alone.",
                "The redrive continues after a restart, and can be cancelled.",
                "Messages that fail again are quarantined again; this redrive does not take them a second time."
                if is_limited
                else "Max attempts are off: messages that fail again go back to the queue and are not quarantined.",
            ],
            [
                Field(
                    "rate",
                    "Rate, messages/s",
                    value=self.request.POST.get("rate", str(RATE_DEFAULT)),
                    help=f"1 to {RATE_MAX:,}.",
                    is_required=True,
                    length_max=6,
                ),
                Field(
                    "attempts",
                    "Attempts",
                    kind="radio",
                    choices=tuple(
                        Choice(value, label, value == chosen)
                        for value, label in (_ATTEMPTS if is_limited else _ATTEMPTS_OFF).items()
                    ),
                ),
            ],
        )

    def details(self) -> dict[str, Any]:
        rate = _number(self.request.POST.get("rate", ""), "Rate", 1, RATE_MAX)
        keeps = self.request.POST.get("attempts", "anew") == "keep"
        return {"rate": rate, "keeps_attempts": keeps, "by": self.request.user.get_username()}

    def audit_detail(self, details: dict[str, Any]) -> str:
        return f"{counted(details['rate'], 'message')}/s"


class CancelRedrive(ActPage):
    routes = {"cancel_redrive": f"{CHANNEL}/~cancel-redrive/"}

    def question(self) -> Question:
        state = self.channel_stats().redrive
        left = state.left if state is not None and not state.ended else 0
        return self.pose(
            f"Cancel the redrive of {self.name}",
            [
                f"{counted(left, 'message')} not redriven yet will stay quarantined. The others wait already."
                if left
                else "No redrive is under way: cancelling changes nothing."
            ],
            button="Cancel the redrive",
            dismiss="Go back",
        )


def _number(text: str, label: str, least: int, most: int) -> int:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) < 8 and least <= int(text) <= most):
        raise ComplaintError(f"{label}: {text[:20]!r} is not a whole number from {least:,} to {most:,}.")
    return int(text)
