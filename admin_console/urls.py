"""Every path of the console. Each name has its rule in permissions/table.py."""

from django.urls import URLPattern, URLResolver, include, path, register_converter

from admin_console.views import accounts, acts, audit, confirmed_acts, cursors, messages, pages, pipeline, rewind
from admin_console.views.names import NameConverter

register_converter(NameConverter, "name")

_TOPIC = "topics/<name:topic>"
_CHANNEL = "topics/<name:topic>/<name:channel>"

handler404 = "admin_console.answers.refusal.not_found"
handler500 = "admin_console.answers.failed.server_error"

urlpatterns: list[URLPattern | URLResolver] = [
    # Accounts.
    path("login/", accounts.log_in, name="login"),
    path("logout/", accounts.log_out, name="logout"),
    path("password/", accounts.change_password, name="password"),
    # Pages that read.
    path("", pages.overview, name="overview"),
    path("topics/", pages.topics, name="topics"),
    path(f"{_TOPIC}/", pages.topic, name="topic"),
    path(f"{_CHANNEL}/", pages.channel, name="channel"),
    path("pipeline/", pages.pipeline, name="pipeline"),
    path("pipeline/replays/<slug:replay>/", pages.replay, name="replay"),
    path("audit/", audit.audit_list, name="audit"),
    path(f"{_TOPIC}/~messages/", messages.topic_messages, name="topic_messages"),
    path(f"{_CHANNEL}/~messages/", messages.channel_messages, name="channel_messages"),
    # Acts.
    path("topics/~create/", acts.create_topic, name="create_topic"),
    path(f"{_TOPIC}/~create-channel/", acts.create_channel, name="create_channel"),
    path(f"{_TOPIC}/~publish/", acts.publish, name="publish"),
    path(f"{_TOPIC}/~pause/", acts.pause_topic, name="pause_topic"),
    path(f"{_TOPIC}/~unpause/", acts.unpause_topic, name="unpause_topic"),
    path(f"{_TOPIC}/~retry/", acts.retry_topic, name="retry_topic"),
    path(f"{_TOPIC}/~archive-on/", cursors.archive_on, name="archive_on"),
    path(f"{_CHANNEL}/~pause/", acts.pause_channel, name="pause_channel"),
    path(f"{_CHANNEL}/~unpause/", acts.unpause_channel, name="unpause_channel"),
    path(f"{_CHANNEL}/~retry/", acts.retry_channel, name="retry_channel"),
    # Acts on the pipeline.
    path("pipeline/jobs/<slug:job>/~stop/", pipeline.stop_job, name="stop_job"),
    path("pipeline/jobs/<slug:job>/~start/", pipeline.start_job, name="start_job"),
    path("pipeline/~replay/", pipeline.plan_replay, name="plan_replay"),
    path("pipeline/replays/<slug:replay>/~run/", pipeline.run_replay, name="run_replay"),
    path("pipeline/replays/<slug:replay>/~cancel/", pipeline.cancel_replay, name="cancel_replay"),
    # Acts that are confirmed first.
    path(f"{_TOPIC}/~empty/", confirmed_acts.empty_topic, name="empty_topic"),
    path(f"{_TOPIC}/~delete/", confirmed_acts.delete_topic, name="delete_topic"),
    path(f"{_TOPIC}/~archive-off/", cursors.archive_off, name="archive_off"),
    path(f"{_TOPIC}/~cursors/<name:cursor>/~delete/", cursors.delete_cursor, name="delete_cursor"),
    path(f"{_CHANNEL}/~empty/", confirmed_acts.empty_channel, name="empty_channel"),
    path(f"{_CHANNEL}/~delete/", confirmed_acts.delete_channel, name="delete_channel"),
    path(f"{_CHANNEL}/~requeue/", confirmed_acts.requeue_channel, name="requeue_channel"),
    path(f"{_CHANNEL}/~release-deferred/", confirmed_acts.release_deferred, name="release_deferred"),
    path(f"{_CHANNEL}/~rewind/", rewind.rewind_channel, name="rewind_channel"),
    path("api/", include("admin_console.api.urls")),
]
