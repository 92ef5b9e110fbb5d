"""The tables of options and variables."""

import itertools
from collections.abc import Iterator

from admin_console.options import CONSOLE_OPTIONS, SWITCHES
from admin_console.vocabulary import variables
from queue_engine.lake import variables as pipeline_variables
from queue_engine.vocabulary.options.texts import engine_option_texts
from tests.support.references.generated import code, table

HEADING = ("option", "variable", "default", "limits", "")


def engine_options() -> Iterator[str]:
    for number, (group, texts) in enumerate(itertools.groupby(engine_option_texts(), key=lambda text: text.group)):
        if number:
            yield ""
        yield f"**{group[0].upper()}{group[1:]}**"
        yield ""
        yield from table(
            HEADING,
            [(code(text.flag), code(text.variable), text.default, text.limits, text.help) for text in texts],
        )


def console_options() -> list[str]:
    return table(
        HEADING,
        [
            (code(option.flag), code(option.variable), option.default, option.limits, option.help)
            for option in (*CONSOLE_OPTIONS, *SWITCHES)
        ],
    )


def console_variables() -> list[str]:
    return table(("variable", ""), [(code(name), text) for name, text in variables.HELP.items()])


def pipeline_variables_table() -> list[str]:
    return table(("variable", ""), [(code(name), text) for name, text in pipeline_variables.HELP.items()])
