"""The words of a boolean expression, each with the place where it stands, as tokens for sqlglot's parser.

They are all that a person can write: the parser sees nothing that is refused here, such as comments and brackets. It
sees no word of SQL either but those of _WORDS: it takes every other one for a name.
"""

import re
from typing import NoReturn

from sqlglot import Token, Tokenizer, TokenType

from queue_engine.vocabulary.errors import ExpressionError

LENGTH_MAX = 2000  # characters

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
# Before every name, so that the parser takes it for nothing else: `if`, `date` and `case` have meanings there. null,
# true and false are names to it, too: it keeps the places of names, texts and numbers, and of nothing else.
NAME = "n_"
_WORDS = frozenset({"AND", "OR", "NOT", "IN", "LIKE", "IS", "BETWEEN"})
_TYPES = Tokenizer.SINGLE_TOKENS | Tokenizer.KEYWORDS


def tokens_of(text: str) -> list[Token]:
    """All words of `text`, and one of type END behind them. Raises ExpressionError."""
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
                refuse(at, f"{word!r} begins no comment here; there are none")
            case "name":
                type_ = _TYPES[word.upper()] if word.upper() in _WORDS else TokenType.VAR
                tokens.append(token_at(at, type_, word if type_ != TokenType.VAR else NAME + word, len(word)))
            case "number":
                tokens.append(token_at(at, TokenType.NUMBER, word))
            case "text":
                tokens.append(token_at(at, TokenType.STRING, word[1:-1].replace("''", "'"), len(word)))
            case "quoted":
                tokens.append(token_at(at, TokenType.IDENTIFIER, word[1:-1], len(word)))
            case "sign":
                tokens.append(token_at(at, _TYPES[word], word))
        at = match.end()
    return [*tokens, token_at(len(text), TokenType.END, "")]


def token_at(start: int, type_: TokenType, text: str, length: int | None = None) -> Token:
    """sqlglot's errors name a token by its last column: here that is its first character, and 1 for the first."""
    return Token(type_, text, 1, start + 1, start, start + (len(text) if length is None else length))


def shown(token: Token) -> str:
    return "the end" if token.token_type == TokenType.END else repr(token.text.removeprefix(NAME))


def refuse(at: int, sentence: str) -> NoReturn:
    """at: index of the character; people count from 1."""
    raise ExpressionError(f"character {at + 1}: {sentence}")


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
