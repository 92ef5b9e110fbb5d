"""Splits a boolean expression into words, each with its place, as tokens for sqlglot's parser.

The parser gets only words of the grammar: comments and brackets are refused here. Of SQL's words it gets those of
_WORDS; every other word is a quoted name to it, and has no other meaning.
"""

import re
from typing import NoReturn

from sqlglot import Token, Tokenizer, TokenType

from queue_engine.vocabulary.errors import ExpressionError

LENGTH_MAX = 2000  # characters

_AROUND = 24  # characters that an error shows before and behind its place
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[ \t\r\n]*\.[ \t\r\n]*[A-Za-z_][A-Za-z0-9_]*)*)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_]))
    |(?P<text>'(?:[^'\x00-\x1f\x7f]|'')*')
    |(?P<quoted>"[^"\x00-\x1f\x7f]*")
    |(?P<comment>--|/\*)
    |(?P<sign><=|>=|!=|[=<>(),+*/-])""",
    re.VERBOSE,
)
_WORDS = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "IS", "BETWEEN"})
_TYPES = Tokenizer.SINGLE_TOKENS | Tokenizer.KEYWORDS


class RefusedError(Exception):
    """A mistake at one place of an expression. at: index of the character."""

    def __init__(self, at: int, sentence: str) -> None:
        super().__init__(sentence)
        self.at = at

    def with_place(self, text: str) -> str:
        """The sentence with its place, counted from 1, and the text around it."""
        begin, end = max(0, self.at - _AROUND), self.at + _AROUND
        before = "…" * (begin > 0) + text[begin : self.at]
        behind = text[self.at : end] + "…" * (end < len(text))
        around = re.sub(r"[\x00-\x1f\x7f]", " ", f"{before}▸{behind}")
        return f'character {self.at + 1}: {self}, in "{around}"'


def tokens_of(text: str) -> list[Token]:
    """All words of `text`, and one of type END behind them. Raises RefusedError; ExpressionError for a long text."""
    if len(text) > LENGTH_MAX:
        raise ExpressionError(f"the expression has {len(text)} characters, {LENGTH_MAX} are allowed")
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            refuse(at, _refused(text, at))
        word = match[0]
        match match.lastgroup:
            case "comment":
                refuse(at, f"{word!r} begins a comment; comments are not allowed")
            case "name":
                tokens.append(
                    token_at(at, _TYPES[word.upper()] if word.upper() in _WORDS else TokenType.IDENTIFIER, word)
                )
            case "number":
                tokens.append(token_at(at, TokenType.NUMBER, word))
            case "text":
                tokens.append(token_at(at, TokenType.STRING, word[1:-1].replace("''", "'"), len(word)))
            case "quoted":
                tokens.append(token_at(at, TokenType.IDENTIFIER, word, len(word)))
            case "sign":
                tokens.append(token_at(at, _TYPES[word], word))
        at = match.end()
    return [*tokens, token_at(len(text), TokenType.END, "")]


def token_at(start: int, type_: TokenType, text: str, length: int | None = None) -> Token:
    """sqlglot's errors name a token by its last column: here that is its first character, and 1 for the first."""
    return Token(type_, text, 1, start + 1, start, start + (len(text) if length is None else length))


def shown(token: Token) -> str:
    return "the end" if token.token_type == TokenType.END else repr(token.text)


def refuse(at: int, sentence: str) -> NoReturn:
    raise RefusedError(at, sentence)


def _refused(text: str, at: int) -> str:
    character = text[at]
    if character in "'\"":
        return f"{character} opens a text that is not closed, or that has a control character in it"
    if character == ".":
        return 'a dot stands between two names, as in body.customer.name; json("…") takes names of other characters'
    if character in "[]":
        return f'{character!r} can\'t stand here; an element of an array is written as json("lines[0].sku")'
    if number := re.match(r"[0-9][A-Za-z0-9_.]*", text[at:]):
        return f"{number[0]!r} is not a number; numbers are written as 12, 12.5 or 1.5e3"
    return (
        f"{character!r} can't stand here; allowed are names, numbers, 'texts', ( ) , . and "
        "= != < <= > >= + - * / and or not in like between is null"
    )
