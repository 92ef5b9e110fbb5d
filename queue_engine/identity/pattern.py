r"""Regular expressions of auth servers, matched whole, in time that grows with the name's length alone.

Python's own `re` goes back and forth: `(a+)+$` on a name of 64 characters would stop the server for years. Go's, which
nsqd has, does not; so these are run as Go runs them, all ways at once. Syntax, as far as names of topics and channels
can need it:

    a  .  [a-z]  [^a]  \.  \d \w \s \D \W \S     one character
    xy  x|y  (x)  (?:x)  (?P<name>x)  (?i)x      sequence, choice, group, upper and lower case alike
    x*  x+  x?  x{2}  x{2,}  x{2,5}              repetition; a ? behind it changes nothing here
    ^  $  \A  \z                                 begin and end, which the whole name has anyway
"""

import re
from collections.abc import Callable, Iterable
from functools import partial

LENGTH_MAX = 512
GROUP_DEPTH_MAX = 40
# A name of 64 characters is tried with so many states at most: some 5 ms, once for each name.
STATES_MAX = 600
_STEPS_MAX = 10 * STATES_MAX

_ALL = (1 << 128) - 1  # a set of characters has a bit for each ASCII code: names have no others
_ACCEPTED = 0
_COUNTED = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}")
_GROUP_NAME = re.compile(r"\?P?<[A-Za-z_]\w{0,31}>")


class PatternError(ValueError):
    """The text is no regular expression, or one beyond the limits above. The text says which."""


def _set_of(characters: Iterable[int]) -> int:
    return sum(1 << code for code in set(characters))


_DIGITS = _set_of(range(ord("0"), ord("9") + 1))
_LOWER = _set_of(range(ord("a"), ord("z") + 1))
_UPPER = _set_of(range(ord("A"), ord("Z") + 1))
_WORD = _DIGITS | _LOWER | _UPPER | 1 << ord("_")
_SPACE = _set_of(b"\t\n\f\r ")
_CLASSES = {
    "d": _DIGITS,
    "w": _WORD,
    "s": _SPACE,
    "D": _ALL & ~_DIGITS,
    "W": _ALL & ~_WORD,
    "S": _ALL & ~_SPACE,
}
_CASE_BITS = ord("a") - ord("A")

# A part of the expression: given the state behind it, it adds its states and returns its first one.
_Part = Callable[["_States", int], int]


class _States:
    """The states of an automaton. State 0 accepts. Each other one takes a character of its set, or none at all."""

    def __init__(self) -> None:
        self.takes = [0]  # 0: it takes no character, and all its followers are reached with it
        self.followers: list[tuple[int, ...]] = [()]
        self.only_at: list[str] = [""]  # "begin" or "end": reached there alone
        self._steps = 0

    def add(self, takes: int, followers: tuple[int, ...], only_at: str = "") -> int:
        if len(self.takes) > STATES_MAX:
            raise PatternError(f"it needs more than {STATES_MAX} states")
        self.takes.append(takes)
        self.followers.append(followers)
        self.only_at.append(only_at)
        return len(self.takes) - 1

    def build(self, part: _Part, then: int) -> int:
        self._steps += 1
        if self._steps > _STEPS_MAX:  # empty groups repeated in repetitions need no states
            raise PatternError(f"it needs more than {_STEPS_MAX} steps")
        return part(self, then)


class Pattern:
    """One expression. Raises PatternError."""

    __slots__ = ("_followers", "_only_at", "_start", "_takes", "text")

    def __init__(self, text: str) -> None:
        if len(text) > LENGTH_MAX:
            raise PatternError(f"it has {len(text)} characters and the most is {LENGTH_MAX}")
        self.text = text
        states = _States()
        self._start = states.build(_Reader(text).whole(), _ACCEPTED)
        self._takes, self._followers, self._only_at = states.takes, states.followers, states.only_at

    def matches(self, name: str) -> bool:
        """Whether the whole name fits."""
        takes, followers = self._takes, self._followers
        end = len(name)
        states = self._reached([self._start], is_begin=True, is_end=not end)
        for index, character in enumerate(name):
            bit = 1 << ord(character)
            following = [then for state in states if takes[state] & bit for then in followers[state]]
            states = self._reached(following, is_begin=False, is_end=index + 1 == end)
            if not states:
                return False
        return _ACCEPTED in states

    def _reached(self, states: list[int], *, is_begin: bool, is_end: bool) -> set[int]:
        """These states, and all that are reached from them without a character."""
        reached: set[int] = set()
        while states:
            state = states.pop()
            only_at = self._only_at[state]
            if state in reached or (only_at == "begin" and not is_begin) or (only_at == "end" and not is_end):
                continue
            reached.add(state)
            if not self._takes[state]:
                states.extend(self._followers[state])
        return reached


class _Reader:
    """Reads an expression from its text, front to back."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ignores_case = False

    def whole(self) -> _Part:
        part = self._choice(0)
        if self._at < len(self._text):
            raise PatternError("a ) has no (")
        return part

    def _next(self) -> str:
        """The next character, or "" at the end."""
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        character = self._next()
        if not character:
            raise PatternError("it ends in the middle")
        self._at += 1
        return character

    def _choice(self, depth: int) -> _Part:
        if depth > GROUP_DEPTH_MAX:
            raise PatternError(f"it has groups within groups, {GROUP_DEPTH_MAX} deep at most")
        ways = [self._sequence(depth)]
        while self._next() == "|":
            self._at += 1
            ways.append(self._sequence(depth))
        return ways[0] if len(ways) == 1 else partial(_one_of, ways)

    def _sequence(self, depth: int) -> _Part:
        parts: list[_Part] = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._one(depth)))
        return partial(_one_after_the_other, parts)

    def _repeated(self, part: _Part) -> _Part:
        counted = _COUNTED.match(self._text, self._at)
        if counted is not None:
            self._at = counted.end()
            least = int(counted[1])
            most = least if counted[2] is None else int(counted[3]) if counted[3] else None
            if most is not None and most < least:
                raise PatternError(f"{counted[0]} ends before it begins")
        elif self._next() and self._next() in "*+?":
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[self._take()]
        else:
            return part
        if self._next() == "?":
            self._at += 1
        if (self._next() and self._next() in "*+?") or _COUNTED.match(self._text, self._at):
            raise PatternError("a repetition has another one right behind it")
        return partial(_repetition, part, least, most)

    def _one(self, depth: int) -> _Part:
        character = self._take()
        if character == "(":
            return self._group(depth)
        if character == "^":
            return partial(_place, "begin")
        if character == "$":
            return partial(_place, "end")
        if character in "*+?":
            raise PatternError(f"there is nothing before {character} to repeat")
        if character == "\\" and self._next() and self._next() in "Az":
            return partial(_place, "begin" if self._take() == "A" else "end")
        if character == "[":
            takes = self._class()
        elif character == ".":
            takes = _ALL
        else:
            takes = self._character(character)
        if self._ignores_case:
            takes |= (takes & _UPPER) << _CASE_BITS | (takes & _LOWER) >> _CASE_BITS
        return partial(_character, takes)

    def _group(self, depth: int) -> _Part:
        name = _GROUP_NAME.match(self._text, self._at)
        ignored_case = self._ignores_case
        if name is not None:
            self._at = name.end()
        elif self._text.startswith("?:", self._at):
            self._at += 2
        elif self._text.startswith("?i)", self._at):
            self._at += 3
            self._ignores_case = True  # to the end of the group that it is in
            return partial(_one_after_the_other, [])
        elif self._text.startswith("?i:", self._at):
            self._at += 3
            self._ignores_case = True
        elif self._next() == "?":
            raise PatternError("it has a group that begins with (? and is not known")
        part = self._choice(depth + 1)
        if self._next() != ")":
            raise PatternError("a ( has no )")
        self._at += 1
        self._ignores_case = ignored_case
        return part

    def _character(self, character: str) -> int:
        """The set of one character, or of what a backslash stands before."""
        if character == "\\":
            character = self._take()
            if character in _CLASSES:
                return _CLASSES[character]
            if character.isalnum():
                raise PatternError(f"\\{character} is not known")
        return 1 << ord(character) if character.isascii() else 0

    def _class(self) -> int:
        is_negated = self._next() == "^"
        self._at += is_negated
        takes = 0
        is_first = True
        while is_first or self._next() != "]":
            is_first = False
            if self._text.startswith("[:", self._at):
                raise PatternError("classes such as [:alpha:] are not known")
            low = self._character(self._take())
            is_range = self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]")
            if is_range:
                self._at += 1
                high = self._character(self._take())
                if low.bit_count() != 1 or high.bit_count() != 1 or high < low:
                    raise PatternError("a range in a class does not go from one character up to another")
                low = (high << 1) - low
            takes |= low
        self._at += 1
        return _ALL & ~takes if is_negated else takes


def _character(takes: int, states: _States, then: int) -> int:
    # A set without characters takes none, ever; 1 << 128 is a character that no name has.
    return states.add(takes or 1 << 128, (then,))


def _place(where: str, states: _States, then: int) -> int:
    return states.add(0, (then,), only_at=where)


def _one_after_the_other(parts: list[_Part], states: _States, then: int) -> int:
    for part in reversed(parts):
        then = states.build(part, then)
    return then


def _one_of(ways: list[_Part], states: _States, then: int) -> int:
    return states.add(0, tuple(states.build(way, then) for way in ways))


def _repetition(part: _Part, least: int, most: int | None, states: _States, then: int) -> int:
    if most is None:
        start = states.add(0, ())
        states.followers[start] = (states.build(part, start), then)
    else:
        start = then
        for _ in range(most - least):
            start = states.add(0, (states.build(part, start), then))
    for _ in range(least):
        start = states.build(part, start)
    return start
