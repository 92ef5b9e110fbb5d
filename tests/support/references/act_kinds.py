"""The table of what each kind of topic can do."""

from queue_engine.act_kinds import ACT_KINDS
from tests.support.references.generated import code, table


def act_kinds() -> list[str]:
    """What all kinds can do in one sentence, and a row for each act that some kind can't do."""
    rows = list(ACT_KINDS.values())
    everywhere = [code(row.name) for row in rows if not (row.log or row.diskqueue or row.ephemeral)]
    some = [row for row in rows if row.log or row.diskqueue or row.ephemeral]
    return [
        f"All kinds: {', '.join(everywhere)}.",
        "",
        *table(
            ("act or read", "`log`", "`diskqueue`", "`#ephemeral`"),
            [
                (code(row.name), *(reason or "yes" for reason in (row.log, row.diskqueue, row.ephemeral)))
                for row in some
            ],
        ),
    ]
