"""Text of strangers on a terminal: escape sequences and whatever else would do something there are shown, not done.

A body can hold a sequence that renames the window, moves the cursor over lines before it, or has the terminal answer as
if its user typed. Pipes and files get the bytes as they are.
"""

_PLAIN = "\n\t"


def for_terminal(text: str) -> str:
    """`text` with each character that can't be printed as its escape, such as \\x1b; ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in _PLAIN else _escape(one) for one in text)


def bytes_for_terminal(data: bytes) -> bytes:
    """The same of UTF-8; bytes that are none are escapes such as \\xff."""
    return for_terminal(data.decode(errors="backslashreplace")).encode()


def on_one_line(text: str) -> str:
    """As `for_terminal`, with ends of lines and tabs as escapes, too."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
