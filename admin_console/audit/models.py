"""The audit list's table."""

from dataclasses import dataclass

from django.db import models

VIA_CONSOLE = "console"
VIA_HTTP_API = "http-api"
VIA_TCP = "tcp"  # a client's publish or subscription
VIA_COMMAND_LINE = "command-line"
VIA_SERVER = "server"  # the server by itself, such as removing old rows, or ending a pause

# An expression has 2,000 characters, a key 255, two names of topics 64 each.
DETAIL_LENGTH_MAX = 2_700

# The kind of actor there; elsewhere an actor is a user, or an account of the operating system.
ACTOR_WORDS = {VIA_HTTP_API: "token", VIA_TCP: "client"}

# The start of a detail over the HTTP API: the user for whom a token's program acts, by its claim.
CLAIM = "for "


def who_of(actor: str, via: str) -> str:
    """An actor as a page names it: "token deploy", or the user's name."""
    return f"{ACTOR_WORDS[via]} {actor}" if actor and via in ACTOR_WORDS else actor


class Phase(models.TextChoices):
    """An act is written twice, before and after; an event, which is over at once, is one row."""

    INTENT = "intent"
    RESULT = "result"
    EVENT = "event"  # log-ins, users, and acts that came over the engine's HTTP API
    REFUSED = "refused"  # by a role or a check: nothing was begun


class Verdict(models.TextChoices):
    """The outcome of an act."""

    PENDING = "", "pending"  # an intent's
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it had begun when the wait for its answer ended
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Origin:
    """The request of an act, for notifications; no row stores it. detail: the intent's."""

    url: str
    user_agent: str
    detail: str


class AuditRow(models.Model):
    """One line: actor, time, address, act, object, reason and outcome.

    Rows are only ever added, by `chain.append`: the database itself refuses to change, replace or remove one
    (migrations/0003), and each row's hash covers the row before it.
    """

    act_id = models.CharField(max_length=32)  # joins the intent and the result of one act
    phase = models.CharField(max_length=8, choices=Phase.choices)
    at_ms = models.BigIntegerField()  # UTC, Unix milliseconds
    actor = models.CharField(max_length=64)  # "" without a log-in, as over the engine's HTTP API
    role = models.CharField(max_length=16, blank=True)
    address = models.CharField(max_length=64, blank=True)
    via = models.CharField(max_length=16)  # VIA_…
    action = models.CharField(max_length=32)
    topic = models.CharField(max_length=64, blank=True)
    channel = models.CharField(max_length=64, blank=True)
    # Which client, message or user; of a replay its whole request.
    detail = models.CharField(max_length=DETAIL_LENGTH_MAX, blank=True)
    reason = models.CharField(max_length=200, blank=True)
    verdict = models.CharField(max_length=8, choices=Verdict.choices, blank=True)
    message = models.CharField(max_length=500, blank=True)  # the sentence that the actor read
    counts = models.JSONField(default=dict)  # of the outcome: depth, in_flight, deferred, channels, clients
    previous_hash = models.CharField(max_length=64, default="", db_default="")  # of the row before
    hash = models.CharField(max_length=64, default="", db_default="")  # "" where Penstock did not write the row

    origin: Origin | None = None
    cluster = ""  # the name of its cluster; `detail` has it, too

    class Meta:
        ordering = ("-id",)
        indexes = (
            models.Index(fields=["actor", "-id"], name="audit_by_actor"),
            models.Index(fields=["action", "-id"], name="audit_by_action"),
            models.Index(fields=["topic", "channel", "-id"], name="audit_by_object"),
            models.Index(fields=["act_id"], name="audit_by_act"),
        )

    def __str__(self) -> str:
        return f"{self.who or self.via} {self.action} {self.object_name}: {self.verdict or self.phase}"

    @property
    def who(self) -> str:
        """The actor as a page names it: a token may have the name of a user, and claim to act for one."""
        who = who_of(self.actor, self.via)
        return f"{who}, {self.detail}" if self.has_claim else who

    @property
    def has_claim(self) -> bool:
        """Whether `detail` is the user for whom the token's program acts, by its claim."""
        return self.via == VIA_HTTP_API and bool(self.actor) and str(self.detail).startswith(CLAIM)

    @property
    def object_name(self) -> str:
        """The object of the act: orders, orders/billing, or a user."""
        if self.via == VIA_SERVER and not self.topic:
            return ""  # about the list itself; `detail` is for the chain
        return f"{self.topic}/{self.channel}" if self.channel else self.topic or ("" if self.has_claim else self.detail)
