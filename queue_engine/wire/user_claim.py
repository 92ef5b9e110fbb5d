"""The header of a program that acts for a user, such as a console: the user's name for the audit list.

It is a claim of the request's token: nothing checks it, and it gives no right. Without a token it is ignored.
"""

from urllib.parse import quote, unquote

HEADER = "X-Penstock-On-Behalf-Of"
CHARACTERS_MAX = 64
_BYTES_MAX = CHARACTERS_MAX * 12  # a character has at most 4 bytes of UTF-8, each %XX


def encoded(user: str) -> str:
    """The header's value: UTF-8, percent-encoded."""
    return quote(user[:CHARACTERS_MAX], safe=" @._+-", errors="replace").strip()


def claimed_user(value: bytes) -> str:
    """The user's name in one line of printable characters, cut at CHARACTERS_MAX; "" for none."""
    text = unquote(value[:_BYTES_MAX].decode("ascii", "replace"), errors="replace")
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:CHARACTERS_MAX]
