"""The table: every page, act and socket, with the least role that may use it.

The acts are those of `queue_engine/vocabulary/acts/table.py`. A URL name that is not here is refused to everybody; a
test walks the URLs and finds it.
"""

from collections.abc import Mapping

from admin_console.gateway import gateway
from admin_console.vocabulary.roles import Role

ANYONE = "anyone"  # not logged in

PAGES: Mapping[str, Role] = {
    "overview": Role.VIEWER,
    "topics": Role.VIEWER,
    "topic": Role.VIEWER,
    "channel": Role.VIEWER,
    # States of messages; bodies and keys are shown there to those who may see contents.
    "channel_messages": Role.VIEWER,
    "channel_message": Role.VIEWER,
    "pipeline": Role.VIEWER,
    "replay": Role.VIEWER,
    "trash": Role.VIEWER,
    "lookup": Role.VIEWER,
    "nodes": Role.VIEWER,
    "counter": Role.VIEWER,
    "node": Role.VIEWER,
    "clients": Role.VIEWER,
    "client": Role.VIEWER,
    "password": Role.VIEWER,
    "clock": Role.VIEWER,
    "logout": Role.VIEWER,
    "audit": Role.OPERATOR,
    "tokens": Role.ADMIN,
    # A page of contents.
    "topic_messages": Role.OPERATOR,
}

# Bodies and keys are a message's contents, and may be any person's data: users with this right see them, on every page,
# and every view is audited.
CONTENTS = "message_body"

# Downloads, and searches that run; each is a look at bodies.
FILES: Mapping[str, Role] = {
    "message_body": Role.OPERATOR,
    "message_file": Role.OPERATOR,
    "message_search": Role.OPERATOR,
}

ACTS: Mapping[str, Role] = {act.name: act.role for act in gateway.ACTS.values() if act.role is not None}

# The acts that a list offers for all that is selected in it; each needs the role of the act itself.
BULK_ACTS: Mapping[str, Role] = {f"bulk_{name}": ACTS[name] for name in ACTS if gateway.ACTS[name].on_several}

ALL_ACTS: Mapping[str, Role] = {**ACTS, **BULK_ACTS}

API: Mapping[str, Role] = {
    "overview_series": Role.VIEWER,
    "topic_series": Role.VIEWER,
    "channel_series": Role.VIEWER,
    "overview_history": Role.VIEWER,
    "topic_history": Role.VIEWER,
    "channel_history": Role.VIEWER,
}

# nsqadmin's interface; its acts need the role of the act itself.
NSQADMIN: Mapping[str, Role] = {
    f"nsqadmin_{name}": Role.VIEWER for name in ("topics", "topic", "channel", "nodes", "node", "counter", "graphite")
} | {"nsqadmin_config": Role.ADMIN}

LEAST_ROLES: Mapping[str, Role | str] = {"login": ANYONE, **PAGES, **ALL_ACTS, **API, **NSQADMIN, **FILES}

# The trash, tokens and the pipeline are this server's: no page of a named cluster.
OF_THE_SERVER = frozenset(
    {
        "archive_again", "archive_off", "archive_on", "cancel_replay", "create_token", "delete_cursor", "delete_trash",
        "pipeline", "plan_replay", "replay", "restore_trash", "revoke_token", "run_replay", "set_archive_limits",
        "start_job", "stop_job", "tokens", "trash",
    }
)  # fmt: skip

SOCKETS: Mapping[str, Role] = {"/ws/live/": Role.VIEWER}
