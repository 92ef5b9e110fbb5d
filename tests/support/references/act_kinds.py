"""The tables of the acts: who may do each, and what each kind of topic can do."""

from queue_engine.vocabulary.acts.table import ACTS, USES, kinds_of
from tests.support.references.generated import code, table


def acts() -> list[str]:
    """A row for each act: its role on a page, its path over HTTP and the permission of a token."""
    return table(
        ("act", "role", "path", "permission", "undone by"),
        [
            (
                code(act.name),
                act.role or "",
                code(act.http.path) if act.http else "",
                act.http.permission if act.http else "",
                code(act.undo) if act.undo else "",
            )
            for act in ACTS.values()
            if act.role or act.http
        ],
    )


def act_kinds() -> list[str]:
    """What all kinds can do in one sentence, and a row for each act that some kind can't do."""
    kinds = {name: kinds_of(name) for name in (*ACTS, *USES)}
    some = {name: row for name, row in kinds.items() if row.log or row.diskqueue or row.ephemeral or row.nsqd}
    return [
        f"All kinds: {', '.join(code(name) for name in kinds if name not in some)}.",
        "",
        *table(
            ("act or read", "`log`", "`diskqueue`", "`#ephemeral`", "a Go nsqd"),
            [
                (code(name), *(reason or "yes" for reason in (row.log, row.diskqueue, row.ephemeral, row.nsqd)))
                for name, row in some.items()
            ],
        ),
    ]
