"""One boolean expression over the columns of messages, as people write it: a replay chooses messages by it.

    body.amount >= 100 and (key like 'eu-%' or body.customer.kind in ('trial', 'free')) and not replayed

Read by a parser of our own into nodes of nodes.py, and by nothing else: Spark's SQL can run programs and
read files, so no text of a person's reaches it. columns.py makes a Spark column of the nodes.
From loosest to tightest:

    or · and · not · = != < <= > >= [not] in (…) [not] like '…' [not] between … and … is [not] null · + - · * / · -x

A column is one of COLUMNS; `body.a.b`, or json("a.b") where a name has other characters than letters, digits and _, is
a field of the body's JSON. Constants: 12.5, 'text' (a quote inside is doubled), true, false; a text beside a time is
read as one, '2026-11-20T10:00:00Z' or '2026-11-20' (UTC). A field of the JSON is compared as what the other side is.
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NoReturn

from queue_engine.pipeline.expression.nodes import (
    COLUMNS,
    Arithmetic,
    As,
    Call,
    Column,
    Comparison,
    Constant,
    Every,
    IsNull,
    JsonField,
    Kind,
    Like,
    Membership,
    Node,
    Not,
    Some,
    like_pattern,
)
from queue_engine.pipeline.expression.tokens import Token, tokens_of
from queue_engine.vocabulary.errors import ExpressionError

DEPTH_MAX = 50
LIST_MAX = 1000
WILDCARDS_MAX = 32  # % in one pattern
WHOLE_MAX = 1 << 53  # whole numbers from here on are not exact

# Function → the kinds of its arguments, and of what comes out; `literal` is a text written there.
FUNCTIONS: dict[str, tuple[tuple[str, ...], Kind]] = {
    "lower": (("text",), "text"),
    "upper": (("text",), "text"),
    "length": (("text or bytes",), "number"),
    "contains": (("text", "literal"), "boolean"),
    "starts_with": (("text", "literal"), "boolean"),
    "ends_with": (("text", "literal"), "boolean"),
    "json": (("path",), "json"),
    "number": (("text or json",), "number"),
    "text": (("text",), "text"),
    "hour": (("time",), "number"),
    "date": (("time",), "text"),
}
_WORDS = frozenset({"and", "or", "not", "in", "like", "is", "null", "between", "true", "false"})
_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_ORDERED = ("<", "<=", ">", ">=")
_PATH = re.compile(r"[\w :/@$-]+(\.[\w :/@$-]+)*")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2}))?"
)


@dataclass(frozen=True, slots=True)
class Expression:
    """text: as a person wrote it. root: a node of kind boolean. columns: those of COLUMNS that it looks at."""

    text: str
    root: Node
    columns: frozenset[str]


def parse_expression(text: str) -> Expression:
    """Raises ExpressionError that names the word it stopped at, its place, and what may stand there."""
    parser = _Parser(tokens_of(text))
    root = parser.whole()
    return Expression(text, root, frozenset(parser.columns))


class _Parser:
    """One function per level of precedence, each leaves the first word that is not its own."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.columns: set[str] = set()

    def whole(self) -> Node:
        if self._peek().kind == "end":
            self._refuse(self._peek(), "the expression is empty")
        root = self._as(self._expression(), "boolean", self._tokens[0])
        if self._peek().kind != "end":
            self._refuse(self._peek(), f"{self._peek().shown} is left over; expected and, or, a comparison or the end")
        return root

    def _peek(self) -> Token:
        return self._tokens[self._at]

    def _take(self) -> Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _take_word(self, word: str) -> bool:
        found = self._peek().is_word(word)
        self._at += found
        return found

    def _take_sign(self, sign: str, where: str) -> None:
        if not self._peek().is_sign(sign):
            self._refuse(self._peek(), f"{self._peek().shown} stands where {sign!r} is expected {where}")
        self._at += 1

    def _refuse(self, token: Token, sentence: str) -> NoReturn:
        raise ExpressionError(f"character {token.at}: {sentence}")

    def _deeper(self, read: "Callable[[], Node]") -> Node:
        if self._depth == DEPTH_MAX:
            self._refuse(self._peek(), f"more than {DEPTH_MAX} expressions inside one another")
        self._depth += 1
        node = read()
        self._depth -= 1
        return node

    # The levels, loosest first.

    def _expression(self) -> Node:
        return self._deeper(lambda: self._series("or", lambda: self._series("and", self._negation, Every), Some))

    def _series(self, word: str, read: "Callable[[], Node]", join: "type[Every] | type[Some]") -> Node:
        begin = self._peek()
        first = read()
        if not self._peek().is_word(word):
            return first
        operands = [self._as(first, "boolean", begin)]
        while self._take_word(word):
            begin = self._peek()
            operands.append(self._as(read(), "boolean", begin))
        return join(tuple(operands))

    def _negation(self) -> Node:
        if not self._peek().is_word("not"):
            return self._comparison()
        self._at += 1
        begin = self._peek()
        return Not(self._as(self._deeper(self._negation), "boolean", begin))

    def _comparison(self) -> Node:
        begin = self._peek()
        left = self._sum()
        token = self._peek()
        if token.is_sign(*_COMPARISONS):
            self._at += 1
            right = self._sum()
            return self._compared(token, left, right)
        if self._take_word("is"):
            is_negated = self._take_word("not")
            if not self._take_word("null"):
                self._refuse(self._peek(), f"{self._peek().shown} stands where null is expected after is")
            return _negated(IsNull(left), is_negated)
        is_negated = token.is_word("not")
        self._at += is_negated
        word = self._peek()
        if self._take_word("in"):
            return _negated(self._membership(left, word), is_negated)
        if self._take_word("like"):
            return _negated(Like(self._as(left, "text", begin), self._pattern()), is_negated)
        if self._take_word("between"):
            low = self._sum()
            if not self._take_word("and"):
                self._refuse(self._peek(), f"{self._peek().shown} stands where and is expected after between")
            high = self._sum()
            over = self._compared(Token("sign", ">=", word.at), left, low)
            return _negated(Every((over, self._compared(Token("sign", "<=", word.at), left, high))), is_negated)
        if is_negated:
            self._refuse(word, f"{word.shown} stands where in, like or between is expected after not")
        return left

    def _sum(self) -> Node:
        return self._chain(("+", "-"), lambda: self._chain(("*", "/"), self._signed))

    def _chain(self, signs: tuple[str, ...], read: "Callable[[], Node]") -> Node:
        begin = self._peek()
        node = read()
        length = 0
        while self._peek().is_sign(*signs):
            token = self._take()
            # Each sign puts what stands before it one level deeper.
            length += 1
            if length > DEPTH_MAX:
                self._refuse(token, f"more than {DEPTH_MAX} of {' or '.join(signs)} in one sum or product")
            left = self._as(node, "number", begin)
            begin = self._peek()
            node = Arithmetic(token.text, left, self._as(read(), "number", begin))
            begin = token
        return node

    def _signed(self) -> Node:
        if not self._peek().is_sign("-"):
            return self._primary()
        token = self._take()
        operand = self._as(self._deeper(self._signed), "number", token)
        if isinstance(operand, Constant) and isinstance(operand.value, float):
            return Constant(-operand.value, "number")
        return Arithmetic("-", Constant(0.0, "number"), operand)

    def _primary(self) -> Node:
        token = self._take()
        if token.is_sign("("):
            node = self._expression()
            self._take_sign(")", f"for the '(' at character {token.at}")
            return node
        if token.kind == "number":
            return self._number(token)
        if token.kind == "text":
            return Constant(token.text, "text")
        if token.kind == "quoted":
            self._refuse(token, 'a text stands in single quotes; double ones are for json("…") alone')
        if token.kind != "name":
            self._refuse(token, f"{token.shown} stands where a column, a constant, a function or '(' is expected")
        name = token.text.lower()
        if name in ("true", "false"):
            return Constant(name == "true", "boolean")
        if name == "null":
            self._refuse(token, "null is compared by: is null, is not null")
        if self._peek().is_sign("("):
            return self._call(token, name)
        if name in _WORDS:
            self._refuse(token, f"{token.shown} stands where a column, a constant, a function or '(' is expected")
        if name not in COLUMNS:
            self._refuse(token, f"there is no column {token.shown}; columns are {', '.join(COLUMNS)}, body.<field>")
        self.columns.add(name)
        path: list[str] = []
        while self._peek().is_sign("."):
            self._at += 1
            field = self._take()
            if name != "body":
                self._refuse(token, f"{token.shown} has no fields; body has")
            if field.kind != "name":
                self._refuse(field, f'{field.shown} stands where a name is expected after the dot; see also json("…")')
            path.append(field.text)
        return JsonField(tuple(path)) if path else Column(name, COLUMNS[name])

    def _number(self, token: Token) -> Constant:
        value = float(token.text)
        if token.text.isdigit() and value >= WHOLE_MAX:
            self._refuse(token, f"{token.text} is not under {WHOLE_MAX}: from there on whole numbers are not exact")
        if math.isinf(value):
            self._refuse(token, f"{token.text} is larger than any number can be")
        return Constant(value, "number")

    def _call(self, token: Token, name: str) -> Node:
        if name not in FUNCTIONS:
            self._refuse(token, f"there is no function {token.shown}; functions are {', '.join(FUNCTIONS)}")
        self._at += 1
        wanted, kind = FUNCTIONS[name]
        if name == "json":
            path = self._path()
            self._take_sign(")", "after the path of json")
            self.columns.add("body")
            return JsonField(path)
        arguments: list[Node] = []
        for index, want in enumerate(wanted):
            if index:
                self._take_sign(",", f"in {name}, which takes {len(wanted)}")
            begin = self._peek()
            argument = self._expression()
            if want == "literal":
                if not (isinstance(argument, Constant) and argument.kind == "text"):
                    self._refuse(begin, f"the last of {name} is a text in single quotes")
                arguments.append(argument)
            elif (want == "text or bytes" and argument.kind == "bytes") or (
                want == "text or json" and argument.kind == "json"
            ):
                arguments.append(argument)
            else:
                arguments.append(self._as(argument, "time" if want == "time" else "text", begin))
        self._take_sign(")", f"after {name}, which takes {len(wanted)}")
        return arguments[0] if name == "text" else Call(name, tuple(arguments), kind)

    def _path(self) -> tuple[str, ...]:
        token = self._take()
        if token.kind not in ("quoted", "text"):
            self._refuse(token, f'{token.shown} stands where the path of json is expected, such as "a.b"')
        if not _PATH.fullmatch(token.text):
            self._refuse(token, f"{token.shown} is no path: letters, digits, _ - : / @ $ and spaces, dots between")
        return tuple(token.text.split("."))

    def _pattern(self) -> str:
        token = self._take()
        if token.kind != "text":
            self._refuse(token, f"{token.shown} stands where a text in single quotes is expected after like")
        if (count := token.text.count("%")) > WILDCARDS_MAX:
            self._refuse(token, f"the pattern has {count} %, {WILDCARDS_MAX} are allowed")
        try:
            return like_pattern(token.text)
        except ValueError:
            self._refuse(token, "in a pattern \\ stands before %, _ or another \\ only")

    def _membership(self, left: Node, word: Token) -> Node:
        self._take_sign("(", "after in")
        options: list[Constant] = []
        value = left
        while True:
            token = self._peek()
            option = self._signed()
            if not isinstance(option, Constant):
                self._refuse(token, "the list of in holds constants")
            pair = self._compared(Token("sign", "=", word.at), left, option)
            assert isinstance(pair, Comparison)
            assert isinstance(pair.right, Constant)
            if options and pair.right.kind != options[0].kind:
                self._refuse(token, "the list of in holds constants of one kind")
            value = pair.left
            options.append(pair.right)
            if len(options) > LIST_MAX:
                self._refuse(token, f"the list of in holds {LIST_MAX} at most")
            if not self._peek().is_sign(","):
                break
            self._at += 1
        self._take_sign(")", "after the list of in")
        return Membership(value, tuple(options))

    # Kinds.

    def _compared(self, operator: Token, left: Node, right: Node) -> Node:
        kinds = {left.kind, right.kind}
        loose = kinds & {"bytes", "json"}
        firm = kinds - loose
        if not firm:
            # Two that could be several things are taken as what both can be.
            if "json" in loose and len(loose) == 1:
                self._refuse(operator, "two fields of the JSON are compared by: number(…) or text(…) on both sides")
            kind: Kind = "text"
        elif "time" in firm:
            kind = "time"
        else:
            kind = left.kind if left.kind in firm else right.kind
        left = self._as(left, kind, operator)
        right = self._as(right, kind, operator)
        if kind == "boolean" and operator.text in _ORDERED:
            self._refuse(operator, f"true and false are compared by = and !=, not {operator.text}")
        return Comparison(operator.text, left, right)

    def _as(self, node: Node, kind: Kind, where: Token) -> Node:
        """The node as one of `kind`. Raises ExpressionError where it can't be one."""
        if node.kind == kind:
            return node
        if (node.kind == "json" and kind in ("text", "number", "boolean")) or (node.kind == "bytes" and kind == "text"):
            return As(node, kind)
        if kind == "time" and isinstance(node, Constant) and isinstance(node.value, str):
            return Constant(self._time(node.value, where), "time")
        self._refuse(where, f"a {kind} is expected here, and this is a {node.kind}")

    def _time(self, text: str, where: Token) -> int:
        try:
            if not _TIME.fullmatch(text):
                raise ValueError(text)
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if "T" not in text else moment.astimezone(UTC)
        except (ValueError, OverflowError):
            self._refuse(where, f"{text!r} is no time; they look like '2026-11-20T10:00:00Z' or '2026-11-20' (UTC)")
        since = moment - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def _negated(node: Node, is_negated: bool) -> Node:
    return Not(node) if is_negated else node
