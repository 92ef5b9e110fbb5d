"""What `penstock serve --help` shows."""

import pytest

from admin_console.management.commands.serve import Command
from admin_console.options import CONSOLE_OPTIONS, SWITCHES
from queue_engine.vocabulary.options.texts import BOOLEAN, engine_option_texts


def test_the_help_has_every_option_in_its_group_and_fits_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = Command().create_parser("penstock", "serve").format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []
    groups = {part.partition(":\n")[0]: _unbroken(part) for part in text.split("\n\n")}
    for option in engine_option_texts():
        default = f"(default: {option.default})" if option.default else ""
        assert _unbroken(f"{option.flag} {_shown(option.value)} {option.help} {default}") in groups[option.group]
    for own in (*CONSOLE_OPTIONS, *SWITCHES):
        assert _unbroken(f"{own.flag} {own.value} {own.help}") in groups["console"]


def _shown(value: str) -> str:
    """A switch can stand alone."""
    return f"[{value}]" if value == BOOLEAN else value


def _unbroken(text: str) -> str:
    return "".join(text.split())
