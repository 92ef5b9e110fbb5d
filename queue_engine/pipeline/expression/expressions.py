"""One boolean expression over the columns of messages, as people write it: a replay chooses messages by it.

    body.amount >= 100 and (key like 'eu-%' or body.customer.kind in ('trial', 'free')) and not replayed

It is the condition of SQL's WHERE, parsed by sqlglot and read into the nodes of `nodes.py`. Spark's SQL can run
programs and read files, so no text of a person's reaches Spark: `columns.py` makes a Spark column of the nodes. From
loosest to tightest:

    or · and · not · = != < <= > >= [not] in (…) [not] like '…' [not] between … and … is [not] null · + - · * / · -x

A column is one of COLUMNS; `body.a.b`, or json("a.b") where a name has other characters than letters, digits and _, is
a field of the body's JSON. Constants: 12.5, 'text' (a quote inside is doubled), true, false; a text beside a time is
read as one, '2026-11-20T10:00:00Z' or '2026-11-20' (UTC). A field of the JSON is compared as what the other side is.

sqlglot parses a text in pieces, one for each pair of parentheses; in the piece around it, a name stands for them. So a
text that is nested too deeply is refused before it is parsed, no text makes sqlglot recurse, and its own functions and
its subqueries can't be reached. Nodes that are not in _ALLOWED are refused by name.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlglot import ParseError, Parser, Token, TokenType, exp

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
from queue_engine.pipeline.expression.tokens import NAME, refuse, shown, token_at, tokens_of

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
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ORDERED = ("<", "<=", ">", ">=")
_SUMS: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-"}
_PRODUCTS: dict[type[exp.Expr], str] = {exp.Mul: "*", exp.Div: "/"}
_OPERANDS = {TokenType.VAR, TokenType.NUMBER, TokenType.STRING, TokenType.IDENTIFIER}
_BETWEEN_OPERANDS = (
    *(TokenType.AND, TokenType.OR, TokenType.IS, TokenType.PLUS, TokenType.STAR, TokenType.SLASH),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
)
# What may stand before these; sqlglot takes some of them elsewhere, too, and recurses for each.
_BEFORE = {
    **dict.fromkeys((*_BETWEEN_OPERANDS, TokenType.END), _OPERANDS),
    **{key: {*_OPERANDS, TokenType.NOT} for key in (TokenType.IN, TokenType.LIKE, TokenType.BETWEEN)},
    TokenType.NOT: {*_OPERANDS, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IS},
}
_TERMS = {exp.Neg, exp.Column, exp.Literal, *_SUMS, *_PRODUCTS}
# Every node of sqlglot's that is taken, with the arguments that it has; those of _OPTIONAL may be there, no others.
_TWO = {"this", "expression"}
_ALLOWED: dict[type[exp.Expr], set[str]] = {
    exp.Or: _TWO,
    exp.And: _TWO,
    exp.Not: {"this"},
    **dict.fromkeys(_COMPARISONS, _TWO),
    exp.In: {"this", "field"},
    exp.Like: _TWO,
    exp.Between: {"this", "low", "high"},
    exp.Is: _TWO,
    **dict.fromkeys((*_SUMS, *_PRODUCTS), _TWO),
    exp.Neg: {"this"},
    exp.Column: {"this"},
    exp.Identifier: {"this"},
    exp.Literal: {"this"},
}
_OPTIONAL = {"negate", "quoted", "is_string"}
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
    reader = _Reader(text)
    root = reader.whole(tokens_of(text))
    return Expression(text, root, frozenset(reader.columns))


@dataclass(slots=True)
class _Parentheses:
    """What stands between two parentheses. depth: of expressions inside one another. pieces: one each comma."""

    start: int
    depth: int
    function: Token | None = None
    pieces: list[list[Token]] = field(default_factory=lambda: [[]])


class _Reader:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        self.columns: set[str] = set()
        self._text = text
        self._parser = Parser()
        self._nested: dict[str, _Parentheses] = {}  # by the name that stands for it in the piece around it

    def whole(self, tokens: list[Token]) -> Node:
        piece = self._pieces(tokens)
        if not piece:
            refuse(0, "the expression is empty")
        tree = self._tree(piece)
        return self._as(self._node(tree), "boolean", _start(tree))

    # Pieces.

    def _pieces(self, tokens: list[Token]) -> list[Token]:
        """The outermost piece; the others are in _nested. Raises ExpressionError when one is too deep or not closed."""
        open_ = [_Parentheses(0, 1)]
        prefixes = 0  # of not and - that stand before this word
        for token in tokens:
            inner = open_[-1]
            piece = inner.pieces[-1]
            if inner.depth + prefixes > DEPTH_MAX:
                refuse(token.start, f"more than {DEPTH_MAX} expressions inside one another")
            if token.token_type == TokenType.L_PAREN:
                is_call = bool(piece) and piece[-1].token_type == TokenType.VAR
                open_.append(_Parentheses(token.start, inner.depth + prefixes + 1, piece.pop() if is_call else None))
            elif token.token_type == TokenType.R_PAREN and len(open_) > 1:
                open_.pop()
                name = f"({len(self._nested)}"
                self._nested[name] = inner
                start = inner.start if inner.function is None else inner.function.start
                open_[-1].pieces[-1].append(token_at(start, TokenType.VAR, name, token.end - start))
            elif token.token_type == TokenType.COMMA and len(open_) > 1:
                inner.pieces.append([])
                if len(inner.pieces) > LIST_MAX:
                    refuse(token.start, f"a list holds {LIST_MAX} at most")
            elif token.token_type == TokenType.END and len(open_) > 1:
                place = f"the '(' at character {inner.start + 1}"
                refuse(token.start, f"the end stands where ')' is expected for {place}")
            else:
                before = piece[-1].token_type if piece else TokenType.AND
                if before not in _BEFORE.get(token.token_type, {before}):
                    expected = "a column, a constant, a function or '('"
                    refuse(token.start, f"{shown(token)} stands where {expected} is expected")
                if token.token_type != TokenType.END:
                    piece.append(token)
            prefixes = prefixes + 1 if token.token_type in (TokenType.NOT, TokenType.DASH) else 0
        return open_[0].pieces[0]

    def _tree(self, piece: list[Token]) -> exp.Expr:
        """A piece as sqlglot parses it: nodes of _ALLOWED alone."""
        token = piece[0]
        trees: list[exp.Expr | None] = []
        try:
            trees = self._parser.parse_into(exp.Condition, piece, self._text)
        except ParseError as exc:
            token = next((one for one in piece if one.col == exc.errors[0]["col"]), piece[-1])
        tree = trees[0] if len(trees) == 1 else None
        if tree is None:
            refuse(token.start, f"{shown(token)} can't be read here: an operand or an operator is missing")
        for node in tree.walk():
            given = {name for name, value in node.args.items() if value is not None and value is not False}
            if type(node) not in _ALLOWED or given - _OPTIONAL != _ALLOWED[type(node)]:
                refuse(piece[0].start, f"SQL's {node.key.upper()} is none of what can be said here")
        return tree

    def _only(self, nested: _Parentheses) -> exp.Expr:
        [piece, *more] = nested.pieces
        if more or not piece:
            refuse(nested.start, "one expression is expected between these parentheses")
        return self._tree(piece)

    # Nodes, the loosest first.

    def _node(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        if kind in (exp.Or, exp.And):
            operands = [self._as(self._node(one), "boolean", _start(one)) for one in _flat(tree, {kind})]
            return (Some if kind is exp.Or else Every)(tuple(operands))
        if kind is exp.Not:
            return Not(self._as(self._node(tree.this), "boolean", _start(tree.this)))
        if kind in _TERMS:
            return self._term(tree)
        left = self._term(tree.this)
        at = self._operator_at(tree.this)
        match tree:
            case exp.Is():
                if _name(tree.expression).lower() != f"{NAME}null":
                    refuse(_start(tree.expression), "null is expected after is")
                return IsNull(left)
            case exp.In():
                return self._membership(left, tree.args["field"], at)
            case exp.Like():
                like = Like(self._as(left, "text", _start(tree.this)), self._pattern(tree.expression))
                return Not(like) if tree.args.get("negate") else like
            case exp.Between():
                low, high = tree.args["low"], tree.args["high"]
                and_at = self._operator_at(low)
                if self._text[and_at : and_at + 3].lower() != "and":
                    refuse(and_at, "and is expected after between")
                over = self._compared(">=", at, left, self._term(low))
                return Every((over, self._compared("<=", at, left, self._term(high))))
        return self._compared(_COMPARISONS[kind], at, left, self._term(tree.expression))

    def _term(self, tree: exp.Expr) -> Node:
        """What stands beside an operator that compares."""
        match tree:
            case exp.Neg():
                operand = self._as(self._term(tree.this), "number", _start(tree.this))
                if isinstance(operand, Constant) and isinstance(operand.value, float):
                    return Constant(-operand.value, "number")
                return Arithmetic("-", Constant(0.0, "number"), operand)
            case exp.Literal():
                return Constant(tree.this, "text") if tree.is_string else self._number(tree)
            case exp.Column():
                return self._named(tree)
        for operators in (_SUMS, _PRODUCTS):
            if type(tree) in operators:
                return self._chain(tree, operators)
        refuse(
            _start(tree), f"SQL's {tree.key.upper()} stands where a column, a constant, a function or '(' is expected"
        )

    def _chain(self, tree: exp.Expr, operators: dict[type[exp.Expr], str]) -> Node:
        signs = []
        while type(tree) in operators:
            signs.append(tree)
            tree = tree.this
        if len(signs) > DEPTH_MAX:
            refuse(_start(tree), f"more than {DEPTH_MAX} of {' or '.join(operators.values())} in one sum or product")
        node = self._as(self._term(tree), "number", _start(tree))
        for sign in reversed(signs):
            right = self._as(self._term(sign.expression), "number", _start(sign.expression))
            node = Arithmetic(operators[type(sign)], node, right)
        return node

    def _named(self, tree: exp.Expr) -> Node:
        """What a name stands for: a column, a constant, or what is nested."""
        name, at = _name(tree), _start(tree)
        if nested := self._nested.get(name):
            return self._call(nested, nested.function) if nested.function else self._node(self._only(nested))
        if not name:
            refuse(at, 'a text stands in single quotes; double ones are for json("…") alone')
        first, *path = (part.strip() for part in name.removeprefix(NAME).split("."))
        column = first.lower()
        if not path and column in ("true", "false"):
            return Constant(column == "true", "boolean")
        if not path and column == "null":
            refuse(at, "null is compared by: is null, is not null")
        if column not in COLUMNS:
            refuse(at, f"there is no column {first!r}; columns are {', '.join(COLUMNS)}, body.<field>")
        if path and column != "body":
            refuse(at, f"{first!r} has no fields; body has")
        self.columns.add(column)
        return JsonField(tuple(path)) if path else Column(column, COLUMNS[column])

    def _number(self, tree: exp.Expr) -> Constant:
        text, at = tree.name, _start(tree)
        value = float(text)
        if text.isdigit() and value >= WHOLE_MAX:
            refuse(at, f"{text} is not under {WHOLE_MAX}: from there on whole numbers are not exact")
        if math.isinf(value):
            refuse(at, f"{text} is larger than any number can be")
        return Constant(value, "number")

    def _call(self, nested: _Parentheses, function: Token) -> Node:
        name = function.text.removeprefix(NAME).lower()
        if name not in FUNCTIONS:
            refuse(function.start, f"there is no function {shown(function)}; functions are {', '.join(FUNCTIONS)}")
        wanted, kind = FUNCTIONS[name]
        if len(nested.pieces) != len(wanted) or not all(nested.pieces):
            refuse(nested.start, f"{name} takes {len(wanted)}")
        trees = [self._tree(piece) for piece in nested.pieces]
        if name == "json":
            self.columns.add("body")
            return self._path(trees[0])
        arguments = [self._argument(name, want, tree) for want, tree in zip(wanted, trees, strict=True)]
        return arguments[0] if name == "text" else Call(name, tuple(arguments), kind)

    def _argument(self, name: str, want: str, tree: exp.Expr) -> Node:
        node = self._node(tree)
        if want == "literal":
            if not (isinstance(node, Constant) and node.kind == "text"):
                refuse(_start(tree), f"the last of {name} is a text in single quotes")
            return node
        if (want, node.kind) in (("text or bytes", "bytes"), ("text or json", "json")):
            return node
        return self._as(node, "time" if want == "time" else "text", _start(tree))

    def _path(self, tree: exp.Expr) -> JsonField:
        if not tree.is_string and (not isinstance(tree, exp.Column) or _name(tree)):
            refuse(_start(tree), 'the path of json is expected, such as "a.b"')
        if not _PATH.fullmatch(tree.name):
            refuse(_start(tree), f"{tree.name!r} is no path: letters, digits, _ - : / @ $ and spaces, dots between")
        return JsonField(tuple(tree.name.split(".")))

    def _pattern(self, tree: exp.Expr) -> str:
        at = _start(tree)
        if not tree.is_string:
            refuse(at, "a text in single quotes is expected after like")
        if (count := tree.name.count("%")) > WILDCARDS_MAX:
            refuse(at, f"the pattern has {count} %, {WILDCARDS_MAX} are allowed")
        try:
            return like_pattern(tree.name)
        except ValueError:
            refuse(at, "in a pattern \\ stands before %, _ or another \\ only")

    def _membership(self, left: Node, tree: exp.Expr, at: int) -> Node:
        nested = self._nested.get(_name(tree))
        if nested is None or nested.function or not all(nested.pieces):
            refuse(at, "a list of constants in parentheses is expected after in")
        options: list[Constant] = []
        value = left
        for piece in nested.pieces:
            option = self._node(self._tree(piece))
            if not isinstance(option, Constant):
                refuse(piece[0].start, "the list of in holds constants")
            pair = self._compared("=", at, left, option)
            assert isinstance(pair.right, Constant)
            if options and pair.right.kind != options[0].kind:
                refuse(piece[0].start, "the list of in holds constants of one kind")
            value = pair.left
            options.append(pair.right)
        return Membership(value, tuple(options))

    def _operator_at(self, left: exp.Expr) -> int:
        """Where the operator behind an operand begins."""
        at = max(place["end"] for place in _places(left))
        while self._text[at : at + 1].isspace():
            at += 1
        return at

    # Kinds.

    def _compared(self, operator: str, at: int, left: Node, right: Node) -> Comparison:
        kinds = {left.kind, right.kind}
        loose = kinds & {"bytes", "json"}
        firm = kinds - loose
        if not firm:
            # Two that could be several things are taken as what both can be.
            if "json" in loose and len(loose) == 1:
                refuse(at, "two fields of the JSON are compared by: number(…) or text(…) on both sides")
            kind: Kind = "text"
        elif "time" in firm:
            kind = "time"
        else:
            kind = left.kind if left.kind in firm else right.kind
        left = self._as(left, kind, at)
        right = self._as(right, kind, at)
        if kind == "boolean" and operator in _ORDERED:
            refuse(at, f"true and false are compared by = and !=, not {operator}")
        return Comparison(operator, left, right)

    def _as(self, node: Node, kind: Kind, at: int) -> Node:
        """The node as one of `kind`. Raises ExpressionError where it can't be one."""
        if node.kind == kind:
            return node
        if (node.kind == "json" and kind in ("text", "number", "boolean")) or (node.kind == "bytes" and kind == "text"):
            return As(node, kind)
        if kind == "time" and isinstance(node, Constant) and isinstance(node.value, str):
            return Constant(_time_us(node.value, at), "time")
        refuse(at, f"a {kind} is expected here, and this is a {node.kind}")


def _time_us(text: str, at: int) -> int:
    try:
        if not _TIME.fullmatch(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if "T" not in text else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        refuse(at, f"{text!r} is no time; they look like '2026-11-20T10:00:00Z' or '2026-11-20' (UTC)")
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def _flat(tree: exp.Expr, kinds: set[type[exp.Expr]]) -> list[exp.Expr]:
    """The operands of a series, in order: sqlglot nests them to the left."""
    operands = []
    while type(tree) in kinds:
        operands.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(operands)]


def _name(tree: exp.Expr) -> str:
    """Of a column that is not quoted; else ""."""
    return "" if not isinstance(tree, exp.Column) or tree.this.quoted else tree.name


def _places(tree: exp.Expr) -> list[dict[str, int]]:
    """Of the names, texts and numbers of a tree: the only nodes that have one."""
    return [node.meta for node in tree.walk() if "start" in node.meta]


def _start(tree: exp.Expr) -> int:
    return min(place["start"] for place in _places(tree))
