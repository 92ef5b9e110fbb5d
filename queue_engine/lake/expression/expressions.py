"""One boolean expression over the columns of messages, as people write it: a replay chooses messages by it.

    body.amount >= 100 and (key like 'eu-%' or body.customer.kind in ('trial', 'free')) and not replayed

The grammar is the condition of SQL's WHERE. sqlglot parses it, and this module makes the nodes of `nodes.py` of
sqlglot's tree. Spark's SQL can run programs and read files, so no text that a person wrote reaches Spark: `columns.py`
makes a Spark column of the nodes. From loosest to tightest:

    or · and · not · = != < <= > >= [not] in (…) [not] like '…' [not] between … and … is [not] null · + - · * / · -x

A column is one of COLUMNS; `body.a.b`, or json("a.b") where a name has other characters than letters, digits and _, is
a field of the body's JSON, and json("a[0].b") one of the first element of an array. Constants: 12.5, 'text' (a quote
inside is doubled), true, false; a text beside a time is read as one, '2026-11-20T10:00:00Z' or '2026-11-20' (UTC). A
field of the JSON is compared in the type of the other side.

sqlglot parses a text in pieces, one for each pair of parentheses; in the piece around it, a name stands for them.
Before that, `_check_order` refuses each word that can't follow the words before it. So a text that is nested too deeply
is refused before it is parsed, no text makes sqlglot recurse, and sqlglot's functions and subqueries can't be reached.
Of its nodes `_node` reads a closed list and refuses all others.
"""

import math
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sqlglot import ParseError, Parser, Token, TokenType, exp

from queue_engine.lake.expression.nodes import (
    COLUMNS,
    And,
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Constant,
    IsNull,
    JsonField,
    JsonPath,
    Kind,
    Like,
    Membership,
    Node,
    Not,
    Or,
    like_pattern,
)
from queue_engine.lake.expression.tokens import RefusedError, refuse, shown, token_at, tokens_of
from queue_engine.vocabulary.errors import ExpressionError

DEPTH_MAX = 50
LIST_MAX = 1000
WILDCARDS_MAX = 32  # % in one pattern
WHOLE_MAX = 1 << 53  # whole numbers from here on are not exact

# Function → the kinds of its arguments, and of its result; `literal` is a text written there.
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
_OPERANDS = {TokenType.IDENTIFIER, TokenType.NUMBER, TokenType.STRING}
_STARTS = {*_OPERANDS, TokenType.L_PAREN, TokenType.DASH}
_NEGATABLE = {TokenType.IN, TokenType.LIKE, TokenType.BETWEEN}
_OPERATORS = {
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IS, *_NEGATABLE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE),
}
_CHAINED = "two comparisons stand side by side: join them by and or or, or put one in parentheses"
_CALLED = {"bytes": "bytes", "json": "a field of the body"}  # other kinds: a number, a text …
_TERMS = {exp.Neg, exp.Column, exp.Literal, *_SUMS, *_PRODUCTS}
# Names between dots, and indexes of arrays in brackets.
_PART = re.compile(r"(?:^|\.)([\w :/@$-]+)|\[([0-9]{1,6})\]")
_PATH = re.compile(r"(?:[\w :/@$-]+|\[[0-9]{1,6}\])(?:\.[\w :/@$-]+|\[[0-9]{1,6}\])*")
_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:T[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:Z|[+-][0-9]{2}:[0-9]{2}))?"
)


@dataclass(frozen=True, slots=True)
class Expression:
    """text: as it was written. root: a node of kind boolean. columns: those of COLUMNS that the expression reads.
    paths: the fields of the body that it reads, each once."""

    text: str
    root: Node
    columns: frozenset[str]
    paths: tuple[JsonPath, ...] = ()


def parse_expression(text: str) -> Expression:
    """Raises ExpressionError that names the word it stopped at, its place, and the words allowed there."""
    try:
        reader = _Reader(text)
        root = reader.whole(tokens_of(text))
    except RefusedError as exc:
        raise ExpressionError(exc.with_place(text)) from None
    return Expression(text, root, frozenset(reader.columns), tuple(reader.paths))


@dataclass(slots=True)
class _Parentheses:
    """The words between two parentheses. depth: how many parentheses, `not` and `-` are around them, and these. pieces:
    the words between commas. function: the name before the parentheses; None without one."""

    start: int
    depth: int
    function: Token | None = None
    pieces: list[list[Token]] = field(default_factory=lambda: [[]])


_Side = tuple[Node, int]  # an operand, and where it begins


class _Reader:
    """Reads one expression."""

    def __init__(self, text: str) -> None:
        self.columns: set[str] = set()
        self.paths: dict[JsonPath, None] = {}
        self._text = text
        self._parser = Parser()
        self._nested: dict[str, _Parentheses] = {}  # by the name that stands for it in the piece around it

    def whole(self, tokens: list[Token]) -> Node:
        if len(tokens) == 1:
            refuse(0, "the expression is empty")
        return self._node_as(self._tree(self._pieces(tokens)), "boolean")

    # Pieces.

    def _pieces(self, tokens: list[Token]) -> list[Token]:
        """Returns the outermost piece; the others are in _nested. Raises RefusedError when one is too deep or not
        closed, and for a word that can't follow the words before it."""
        open_ = [_Parentheses(0, 1)]
        prefixes = 0  # of not and - that stand before this word
        for token in tokens:
            inner = open_[-1]
            piece = inner.pieces[-1]
            type_ = token.token_type
            if inner.depth + prefixes > DEPTH_MAX:
                refuse(token.start, f"parentheses, functions, not and - are nested more than {DEPTH_MAX} deep")
            is_call = type_ == TokenType.L_PAREN and _is_name(piece[-1:])
            is_empty = type_ in (TokenType.R_PAREN, TokenType.COMMA) and len(open_) > 1 and not piece
            if not (is_call or is_empty):
                _check_order(piece, token, inner if len(open_) > 1 else None)
            if type_ == TokenType.L_PAREN:
                open_.append(_Parentheses(token.start, inner.depth + prefixes + 1, piece.pop() if is_call else None))
            elif type_ == TokenType.R_PAREN:
                open_.pop()
                name = f"({len(self._nested)}"
                self._nested[name] = inner
                start = inner.start if inner.function is None else inner.function.start
                open_[-1].pieces[-1].append(token_at(start, TokenType.IDENTIFIER, name, token.end - start))
            elif type_ == TokenType.COMMA:
                inner.pieces.append([])
                if len(inner.pieces) > LIST_MAX:
                    refuse(token.start, f"a list has at most {LIST_MAX} values")
            elif type_ != TokenType.END:
                piece.append(token)
            prefixes = prefixes + 1 if type_ in (TokenType.NOT, TokenType.DASH) else 0
        return open_[0].pieces[0]

    def _tree(self, piece: list[Token]) -> exp.Expr:
        """A piece as sqlglot parses it."""
        token = piece[0]
        trees: list[exp.Expr | None] = []
        try:
            trees = self._parser.parse_into(exp.Condition, piece, self._text)
        except ParseError as exc:
            token = next((one for one in piece if one.col == exc.errors[0]["col"]), piece[-1])
        tree = trees[0] if len(trees) == 1 else None
        if tree is None:
            refuse(token.start, "the rest can't be read from here on; between takes two values: between 1 and 5")
        return tree

    def _only(self, nested: _Parentheses) -> exp.Expr:
        [piece, *more] = nested.pieces
        if more or not piece:
            refuse(nested.start, "one expression is expected between these parentheses")
        return self._tree(piece)

    # Nodes.

    def _node(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        match tree:
            case exp.Or() | exp.And():
                operands = [self._node_as(one, "boolean") for one in _flat(tree, {kind})]
                return (Or if kind is exp.Or else And)(tuple(operands))
            case exp.Not():
                return Not(self._node_as(tree.this, "boolean"))
            case exp.Neg():
                operand = self._node_as(tree.this, "number")
                if isinstance(operand, Constant) and isinstance(operand.value, float):
                    return Constant(-operand.value, "number")
                return Arithmetic("-", Constant(0.0, "number"), operand)
            case exp.Add() | exp.Sub():
                return self._chain(tree, _SUMS)
            case exp.Mul() | exp.Div():
                return self._chain(tree, _PRODUCTS)
            case exp.Literal():
                return Constant(tree.this, "text") if tree.is_string else self._number(tree)
            case exp.Column():
                return self._named(tree)
        if any(type(side) not in _TERMS for side in tree.iter_expressions()):
            refuse(_start(tree), _CHAINED)
        match tree:
            case exp.Is():
                if _name(tree.expression).lower() != "null":
                    refuse(_start(tree.expression), "null is expected after is")
                return IsNull(self._node(tree.this))
            case exp.In():
                return self._membership(self._side(tree.this), tree.args["field"])
            case exp.Like():
                like = Like(self._node_as(tree.this, "text"), self._pattern(tree.expression))
                return Not(like) if tree.args.get("negate") else like
            case exp.Between():
                left, low, high = (self._side(tree.args[name]) for name in ("this", "low", "high"))
                return And((_compared(">=", left, low), _compared("<=", left, high)))
            case _ if kind in _COMPARISONS:
                return _compared(_COMPARISONS[kind], self._side(tree.this), self._side(tree.expression))
        refuse(_start(tree), _CHAINED)

    def _side(self, tree: exp.Expr) -> _Side:
        return self._node(tree), _start(tree)

    def _node_as(self, tree: exp.Expr, kind: Kind) -> Node:
        return _as(self._side(tree), kind)

    def _chain(self, tree: exp.Expr, operators: dict[type[exp.Expr], str]) -> Node:
        signs = []
        while type(tree) in operators:
            signs.append(tree)
            tree = tree.this
        if len(signs) > DEPTH_MAX:
            refuse(_start(tree), f"more than {DEPTH_MAX} of {' or '.join(operators.values())} in one sum or product")
        node = self._node_as(tree, "number")
        for sign in reversed(signs):
            node = Arithmetic(operators[type(sign)], node, self._node_as(sign.expression, "number"))
        return node

    def _named(self, tree: exp.Expr) -> Node:
        """The node of a name: of a column, a constant, or the parentheses that the name stands for."""
        name, at = _name(tree), _start(tree)
        if nested := self._nested.get(name):
            return self._call(nested, nested.function) if nested.function else self._node(self._only(nested))
        if name.startswith('"'):
            refuse(at, 'a text stands in single quotes; double quotes are for json("…") alone')
        first, *path = (part.strip() for part in name.split("."))
        column = first.lower()
        if not path and column in ("true", "false"):
            return Constant(column == "true", "boolean")
        if not path and column == "null":
            refuse(at, "a value is compared with null by is null or is not null")
        if column not in COLUMNS:
            refuse(at, f"there is no column {first!r}; columns are {', '.join(COLUMNS)}, body.<field>")
        if path and column != "body":
            refuse(at, f"{first!r} has no fields; only body has")
        self.columns.add(column)
        return self._field(tuple(path)) if path else Column(column, COLUMNS[column])

    def _number(self, tree: exp.Expr) -> Constant:
        text, at = tree.name, _start(tree)
        value = float(text)
        if text.isdigit() and value >= WHOLE_MAX:
            refuse(at, f"{text} is too large: whole numbers are exact only under {WHOLE_MAX}")
        if math.isinf(value):
            refuse(at, f"{text} is too large: the largest number is about 1.8e308")
        return Constant(value, "number")

    def _call(self, nested: _Parentheses, function: Token) -> Node:
        name = function.text.lower()
        if name not in FUNCTIONS:
            refuse(function.start, f"there is no function {shown(function)}; functions are {', '.join(FUNCTIONS)}")
        wanted, kind = FUNCTIONS[name]
        given = sum(map(bool, nested.pieces))
        if not given == len(nested.pieces) == len(wanted):
            plural = "s" if len(wanted) > 1 else ""
            refuse(nested.start, f"{name} takes {len(wanted)} argument{plural}; {given} given")
        trees = [self._tree(piece) for piece in nested.pieces]
        if name == "json":
            self.columns.add("body")
            return self._path(trees[0])
        arguments = [self._argument(name, want, tree) for want, tree in zip(wanted, trees, strict=True)]
        return arguments[0] if name == "text" else Call(name, tuple(arguments), kind)

    def _argument(self, name: str, want: str, tree: exp.Expr) -> Node:
        node, at = self._side(tree)
        if want == "literal":
            if not (isinstance(node, Constant) and node.kind == "text"):
                refuse(at, f"the last argument of {name} is a text in single quotes")
            return node
        if (want, node.kind) in (("text or bytes", "bytes"), ("text or json", "json")):
            return node
        return _as((node, at), "time" if want == "time" else "text")

    def _path(self, tree: exp.Expr) -> JsonField:
        path = tree.name if tree.is_string else _name(tree)
        if not tree.is_string and not path.startswith('"'):
            refuse(_start(tree), 'json takes a path in quotes, such as json("a.b")')
        if not tree.is_string:
            path = path.strip('"')
        if not _PATH.fullmatch(path):
            refuse(
                _start(tree),
                f"{path!r} is not a path; a path has letters, digits, _ - : / @ $ and spaces between dots, and [0] for "
                "the first element of an array",
            )
        return self._field(tuple(int(index) if index else name for name, index in _PART.findall(path)))

    def _field(self, path: JsonPath) -> JsonField:
        self.paths[path] = None
        return JsonField(path)

    def _pattern(self, tree: exp.Expr) -> str:
        at = _start(tree)
        if not tree.is_string:
            refuse(at, "a text in single quotes is expected after like")
        if (count := tree.name.count("%")) > WILDCARDS_MAX:
            refuse(at, f"the pattern has {count} %, {WILDCARDS_MAX} are allowed")
        try:
            return like_pattern(tree.name)
        except ValueError:
            refuse(at, "in a pattern, \\ may stand only before %, _ or \\")

    def _membership(self, left: _Side, tree: exp.Expr) -> Node:
        nested = self._nested.get(_name(tree))
        if nested is None or nested.function or not all(nested.pieces):
            refuse(_start(tree), "a list of constants in parentheses is expected after in")
        options: list[Constant] = []
        value = left[0]
        for piece in nested.pieces:
            option, at = self._side(self._tree(piece))
            if not isinstance(option, Constant):
                refuse(at, "the list after in has constants only")
            pair = _compared("=", left, (option, at))
            assert isinstance(pair.right, Constant)
            if options and pair.right.kind != options[0].kind:
                refuse(at, "the list after in has constants of one kind")
            value = pair.left
            options.append(pair.right)
        return Membership(value, tuple(options))


# Kinds.


def _compared(operator: str, left: _Side, right: _Side) -> Comparison:
    kinds = {left[0].kind, right[0].kind}
    loose = kinds & {"bytes", "json"}
    firm = kinds - loose
    if not firm:
        # Two operands of several possible types get a type that both can have.
        if loose == {"json"}:
            refuse(
                left[1],
                "two fields of the body are compared as numbers or as texts: write number(…) or text(…) on both sides",
            )
        kind: Kind = "text"
    elif "time" in firm:
        kind = "time"
    else:
        kind = left[0].kind if left[0].kind in firm else right[0].kind
    if kind == "boolean" and operator in _ORDERED:
        refuse(left[1], f"true and false are compared by = and !=, not by {operator}")
    return Comparison(operator, _as(left, kind), _as(right, kind))


def _as(side: _Side, kind: Kind) -> Node:
    """The node as one of `kind`. Raises RefusedError where it can't be one."""
    node, at = side
    if node.kind == kind:
        return node
    if (node.kind == "json" and kind in ("text", "number", "boolean")) or (node.kind == "bytes" and kind == "text"):
        return Cast(node, kind)
    if kind == "time" and isinstance(node, Constant) and isinstance(node.value, str):
        return Constant(_time_us(node.value, at), "time")
    refuse(at, f"a {kind} is expected here, and this is {_CALLED.get(node.kind, f'a {node.kind}')}")


def _check_order(piece: list[Token], token: Token, nested: _Parentheses | None) -> None:
    """Refuses a word that can't follow the words of its piece: operands and operators take turns. sqlglot takes some
    words elsewhere, too, and recurses for each.

    nested: the parentheses around the piece; None outside of all."""
    before, last = [None, None, *(one.token_type for one in piece[-2:])][-2:]
    if nested and token.token_type == TokenType.END:
        allowed, expected = set(), f"')' is expected for the '(' at character {nested.start + 1}"
    elif last in _OPERANDS:
        allowed = _OPERATORS | ({TokenType.COMMA, TokenType.R_PAREN} if nested else {TokenType.END})
        signs = "= != < <= > >= + - * / and or not is in like between"
        expected = f"{'a comma, ) or ' if nested else ''}one of {signs} is expected"
    elif last == TokenType.NOT and before in _OPERANDS:
        allowed, expected = _NEGATABLE, "in, like or between is expected"
    else:
        is_negatable = last in (None, TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.IS)
        allowed = {*_STARTS, TokenType.NOT} if is_negatable else _STARTS
        expected = "a column, a constant, a function or '(' is expected"
    if token.token_type not in allowed:
        refuse(token.start, f"{shown(token)} stands where {expected}")


def _is_name(words: list[Token]) -> bool:
    """Whether there is a word, and it is a name that a person wrote, not one that stands for parentheses."""
    return any(word.token_type == TokenType.IDENTIFIER and not word.text.startswith("(") for word in words)


def _time_us(text: str, at: int) -> int:
    try:
        if not _TIME.fullmatch(text):
            raise ValueError(text)
        moment = datetime.fromisoformat(text)
        moment = moment.replace(tzinfo=UTC) if "T" not in text else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        refuse(at, f"{text!r} is not a time; times are written as '2026-11-20T10:00:00Z' or '2026-11-20' (UTC)")
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
    """The name as it stands in the expression, quotes included; "" for anything but a name."""
    return tree.name if isinstance(tree, exp.Column) else ""


def _places(tree: exp.Expr) -> list[dict[str, int]]:
    """Of the names, texts and numbers of a tree: the only nodes that have one."""
    return [node.meta for node in tree.walk() if "start" in node.meta]


def _start(tree: exp.Expr) -> int:
    return min(place["start"] for place in _places(tree))
