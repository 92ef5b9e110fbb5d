"""The words of a boolean expression, each with the place where it stands."""

import re
from dataclasses import dataclass
from typing import Literal

from queue_engine.vocabulary.errors import ExpressionError

LENGTH_MAX = 2000  # characters

TokenKind = Literal["name", "number", "text", "quoted", "sign", "end"]

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    |(?P<text>'(?:[^'\x00-\x1f\x7f]|'')*')
    |(?P<quoted>"[^"\x00-\x1f\x7f]*")
    |(?P<sign><=|>=|!=|[=<>(),.+*/-])""",
    re.VERBOSE,
)
_COMMENTS = ("--", "/*")


@dataclass(frozen=True, slots=True)
class Token:
    """text: as written; of texts, what stands between the quotes. at: where it begins, the first character is 1."""

    kind: TokenKind
    text: str
    at: int

    @property
    def shown(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text)

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs

    def is_word(self, word: str) -> bool:
        return self.kind == "name" and self.text.lower() == word


def tokens_of(text: str) -> list[Token]:
    """All words of `text`, and one of kind "end" behind them. Raises ExpressionError."""
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"the expression has {len(text)} characters, {LENGTH_MAX} are allowed")
    tokens = []
    at = 0
    while at < len(text):
        if text.startswith(_COMMENTS, at):
            raise ExpressionError(f"character {at + 1}: {text[at : at + 2]!r} begins no comment here; there are none")
        match = _TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"character {at + 1}: {_refused(text, at)}")
        kind = match.lastgroup
        word = match[0]
        if kind == "text":
            tokens.append(Token("text", word[1:-1].replace("''", "'"), at + 1))
        elif kind == "quoted":
            tokens.append(Token("quoted", word[1:-1], at + 1))
        elif kind != "space":
            tokens.append(Token(kind, word, at + 1))  # type: ignore[arg-type]  # the groups are called like the kinds
        at = match.end()
    tokens.append(Token("end", "", len(text) + 1))
    return tokens


def _refused(text: str, at: int) -> str:
    character = text[at]
    if character in "'\"":
        return f"{character} opens a text that is not closed, or that has a control character in it"
    if character.isascii() and character.isdigit():
        return f"{text[at : at + 20]!r} begins like a number and is none"
    return (
        f"{character!r} can't stand here; allowed are names, numbers, 'texts', ( ) , . and "
        "= != < <= > >= + - * / and or not in like between is null"
    )
