"""The table: every page, act and socket, with the least role that may use it.

A URL name that is not here is refused to everybody, and a test walks the URLs to find it.
"""

from collections.abc import Mapping

from admin_console.vocabulary.roles import Role

ANYONE = "anyone"  # not logged in

PAGES: Mapping[str, Role] = {
    "overview": Role.VIEWER,
    "topics": Role.VIEWER,
    "topic": Role.VIEWER,
    "channel": Role.VIEWER,
    "pipeline": Role.VIEWER,
    "replay": Role.VIEWER,
    "password": Role.VIEWER,
    "logout": Role.VIEWER,
    "audit": Role.OPERATOR,
    # Bodies may be anybody's data; every look is audited.
    "topic_messages": Role.OPERATOR,
    "channel_messages": Role.OPERATOR,
}

ACTS: Mapping[str, Role] = {
    "create_topic": Role.OPERATOR,
    "create_channel": Role.OPERATOR,
    "publish": Role.OPERATOR,
    "pause_topic": Role.OPERATOR,
    "unpause_topic": Role.OPERATOR,
    "pause_channel": Role.OPERATOR,
    "unpause_channel": Role.OPERATOR,
    "retry_topic": Role.OPERATOR,
    "retry_channel": Role.OPERATOR,
    "requeue_channel": Role.OPERATOR,
    "release_deferred": Role.OPERATOR,
    "archive_on": Role.OPERATOR,
    "stop_job": Role.OPERATOR,
    "start_job": Role.OPERATOR,
    # A replay publishes, as an operator may: what is planned and read is in the archive, not in the answer.
    "plan_replay": Role.OPERATOR,
    "run_replay": Role.OPERATOR,
    "cancel_replay": Role.OPERATOR,
    # These lose messages, or deliver them again.
    "rewind_channel": Role.ADMIN,
    "empty_topic": Role.ADMIN,
    "empty_channel": Role.ADMIN,
    "delete_topic": Role.ADMIN,
    "delete_channel": Role.ADMIN,
    "delete_cursor": Role.ADMIN,
    "archive_off": Role.ADMIN,
}

API: Mapping[str, Role] = {
    "overview_series": Role.VIEWER,
    "topic_series": Role.VIEWER,
    "channel_series": Role.VIEWER,
    "overview_history": Role.VIEWER,
    "topic_history": Role.VIEWER,
    "channel_history": Role.VIEWER,
}

LEAST_ROLES: Mapping[str, Role | str] = {"login": ANYONE, **PAGES, **ACTS, **API}

SOCKETS: Mapping[str, Role] = {"/ws/live/": Role.VIEWER}
