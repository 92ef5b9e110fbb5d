"""Text in which every character can be seen: a stranger's text neither hides nor reverses the text around it.

A half of a surrogate pair, which JSON can write and UTF-8 can not, is one of them.
"""

import re

# Control characters but tab and line feed; DEL and C1; characters that change the direction of the text, or have no
# width.
_INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def visible(text: str) -> str:
    """`text` with a picture for each control character, such as ␀, and ⟨202E⟩ for each other unseen one."""
    return _INVISIBLE.sub(_picture, text)


def _picture(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"\u27e8{code:04X}\u27e9"
