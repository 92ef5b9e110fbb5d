"""Every path of the console. Each name has its rule in permissions/table.py.

A path's own words begin with `~`, which no topic or channel name may: `/topics/~create/` is never a topic's page.
"""

from django.urls import URLPattern, URLResolver, include, path, register_converter
from django.views import View

from admin_console.message_views import acts, files, lists, search, topic_messages
from admin_console.views import (
    accounts,
    archive_limits,
    audit,
    bulk_acts,
    bulk_kinds,
    cursors,
    lookup,
    pages,
    pausing,
    pipeline,
    quarantine,
    rewind,
    risky_acts,
    safe_acts,
    tokens,
    trash,
)


class NameConverter:
    """A topic or channel name in a path; `#` of `#ephemeral` travels as %23."""

    regex = r"(?!\.{1,2}(?:/|$))[.a-zA-Z0-9_-]{1,64}(?:#ephemeral)?"

    def to_python(self, value: str) -> str:
        if len(value) > 64:
            raise ValueError(f"{value!r} has more than 64 characters")
        return value

    def to_url(self, value: str) -> str:
        return value


class MessageConverter:
    """A message's id of 16 hex digits, or its offset."""

    regex = r"[0-9a-f]{16}|[0-9]{1,18}"

    def to_python(self, value: str) -> str:
        return value

    def to_url(self, value: str) -> str:
        return value


register_converter(NameConverter, "name")
register_converter(MessageConverter, "message")

_TOPIC = "topics/<name:topic>"
_CHANNEL = "topics/<name:topic>/<name:channel>"

handler404 = "admin_console.answers.refusal.not_found"
handler500 = "admin_console.answers.failed.server_error"


def _act(route: str, page: type[View], action: str) -> URLPattern:
    return path(route, page.as_view(action=action), name=action)


urlpatterns: list[URLPattern | URLResolver] = [
    # Accounts.
    path("login/", accounts.log_in, name="login"),
    path("logout/", accounts.log_out, name="logout"),
    path("password/", accounts.change_password, name="password"),
    path("clock/", accounts.choose_clock, name="clock"),
    # Pages that read.
    path("", pages.overview, name="overview"),
    path("topics/", pages.topics, name="topics"),
    path(f"{_TOPIC}/", pages.topic, name="topic"),
    path(f"{_CHANNEL}/", pages.channel, name="channel"),
    path("pipeline/", pages.pipeline, name="pipeline"),
    path("pipeline/replays/<slug:replay>/", pages.replay, name="replay"),
    path("trash/", trash.trash_page, name="trash"),
    path("lookup/", lookup.lookup_page, name="lookup"),
    path("audit/", audit.audit_list, name="audit"),
    path("tokens/", tokens.tokens_page, name="tokens"),
    path(f"{_TOPIC}/~messages/", topic_messages.topic_messages, name="topic_messages"),
    # The messages of a channel.
    path(f"{_CHANNEL}/~messages/", search.messages_or_search, name="channel_messages"),
    path(f"{_CHANNEL}/~messages/~file/", files.message_file, name="message_file"),
    path(f"{_CHANNEL}/~messages/~search/<slug:search>/", search.message_search, name="message_search"),
    path(f"{_CHANNEL}/~messages/<message:message>/", lists.channel_message, name="channel_message"),
    path(f"{_CHANNEL}/~messages/<message:message>/body", files.message_body, name="message_body"),
    # Acts.
    _act("topics/~create/", safe_acts.CreateTopic, "create_topic"),
    _act(f"{_TOPIC}/~create-channel/", safe_acts.CreateChannel, "create_channel"),
    _act(f"{_TOPIC}/~publish/", safe_acts.Publish, "publish"),
    _act(f"{_TOPIC}/~pause/", pausing.PausePage, "pause_topic"),
    _act(f"{_TOPIC}/~unpause/", pausing.ResumePage, "unpause_topic"),
    _act(f"{_TOPIC}/~retry/", safe_acts.Retry, "retry_topic"),
    _act(f"{_TOPIC}/~archive-on/", cursors.ArchiveOn, "archive_on"),
    _act(f"{_CHANNEL}/~pause/", pausing.PausePage, "pause_channel"),
    _act(f"{_CHANNEL}/~unpause/", pausing.ResumePage, "unpause_channel"),
    _act(f"{_CHANNEL}/~retry/", safe_acts.Retry, "retry_channel"),
    _act(f"{_CHANNEL}/~max-attempts/", quarantine.SetMaxAttempts, "set_max_attempts"),
    _act(f"{_CHANNEL}/~redrive/", quarantine.RedriveChannel, "redrive_channel"),
    _act(f"{_CHANNEL}/~cancel-redrive/", quarantine.CancelRedrive, "cancel_redrive"),
    # Acts on the pipeline.
    _act("pipeline/jobs/<slug:job>/~stop/", pipeline.StopJob, "stop_job"),
    _act("pipeline/jobs/<slug:job>/~start/", pipeline.StartJob, "start_job"),
    _act("pipeline/~replay/", pipeline.PlanReplay, "plan_replay"),
    _act("pipeline/replays/<slug:replay>/~run/", pipeline.RunReplay, "run_replay"),
    _act("pipeline/replays/<slug:replay>/~cancel/", pipeline.CancelReplay, "cancel_replay"),
    # What nsqlookupds know.
    _act("lookup/<name:topic>/<str:node>/~tombstone/", lookup.TombstoneProducer, "tombstone_producer"),
    # Tokens of programs.
    _act("tokens/~create/", tokens.CreateToken, "create_token"),
    _act("tokens/<slug:token>/~revoke/", tokens.RevokeToken, "revoke_token"),
    # Acts that are confirmed first.
    _act(f"{_TOPIC}/~empty/", risky_acts.EmptyTopic, "empty_topic"),
    _act(f"{_TOPIC}/~delete/", risky_acts.DeleteTopic, "delete_topic"),
    _act(f"{_TOPIC}/~archive-off/", cursors.ArchiveOff, "archive_off"),
    _act(f"{_TOPIC}/~archive-again/", cursors.ArchiveAgain, "archive_again"),
    _act(f"{_TOPIC}/~archive-limits/", archive_limits.SetArchiveLimits, "set_archive_limits"),
    _act(f"{_TOPIC}/~cursors/<name:cursor>/~delete/", cursors.DeleteCursor, "delete_cursor"),
    _act(f"{_TOPIC}/~trash/<int:trash>/~restore/", trash.RestoreTrash, "restore_trash"),
    _act(f"{_TOPIC}/~trash/<int:trash>/~delete/", trash.DeleteTrash, "delete_trash"),
    _act(f"{_CHANNEL}/~empty/", risky_acts.EmptyChannel, "empty_channel"),
    _act(f"{_CHANNEL}/~delete/", risky_acts.DeleteChannel, "delete_channel"),
    _act(f"{_CHANNEL}/~requeue/", risky_acts.RequeueChannel, "requeue_channel"),
    _act(f"{_CHANNEL}/~release-deferred/", safe_acts.ReleaseDeferred, "release_deferred"),
    _act(f"{_CHANNEL}/~rewind/", rewind.RewindChannel, "rewind_channel"),
    # The same acts on several that are selected in a list.
    *(
        path(
            f"topics/~selected/{action.replace('_', '-')}/",
            bulk_acts.BulkAct.as_view(action=action),
            name=f"bulk_{action}",
        )
        for action in bulk_kinds.KINDS
    ),
    # Acts on single messages.
    _act(f"{_CHANNEL}/~messages/~finish/", acts.MessageAct, "finish_messages"),
    _act(f"{_CHANNEL}/~messages/~requeue/", acts.MessageAct, "requeue_messages"),
    _act(f"{_CHANNEL}/~messages/~release/", acts.MessageAct, "release_messages"),
    _act(f"{_CHANNEL}/~messages/~quarantine/", acts.MessageAct, "quarantine_messages"),
    _act(f"{_CHANNEL}/~messages/~redrive/", acts.MessageAct, "redrive_messages"),
    _act(f"{_CHANNEL}/~messages/~publish-again/", acts.PublishAgain, "publish_again"),
    path("api/", include("admin_console.api.urls")),
]
