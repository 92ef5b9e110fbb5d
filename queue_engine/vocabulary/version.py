"""Penstock's version, and the one that NSQ's programs read. pyproject.toml reads the first here.

Files name Penstock's own, for people: whether a start may read them, their formats decide. NSQ's programs compare
versions, so their sources (`/info`, `/stats`, IDENTIFY, registrations, `--version`) name that of NSQ.
"""

import platform
from functools import cache
from pathlib import Path

VERSION = "0.2.0"

# Of NSQ: the version whose flags, protocol and files these are.
NSQD_VERSION = "1.3.0"
# Semantic versioning ignores the part behind the plus sign.
NSQ_VERSION = f"{NSQD_VERSION}+penstock.{VERSION}"

_COMMIT_DIGITS = 12


@cache
def full_version() -> str:
    """VERSION, with the commit behind it where this is a checkout: 0.2.0+g8a0d66b0c1d2. For people."""
    commit = commit_of(Path(__file__).parents[2])
    return f"{VERSION}+g{commit[:_COMMIT_DIGITS]}" if commit else VERSION


def version_line(program: str) -> str:
    """The output of `--version`. NSQ's own is `nsqd v1.3.0 (built w/go1.21.1)`; scripts read the version off it."""
    return f"{program} v{NSQD_VERSION} (built w/python{platform.python_version()}) penstock v{full_version()}"


def commit_of(directory: Path) -> str:
    """The commit that git has checked out in `directory`, in hex; "" where that is no checkout or can't be read."""
    try:
        git = directory / ".git"
        if git.is_file():  # a further worktree: gitdir: PATH
            git = directory / git.read_text().removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text().strip()
        if not head.startswith("ref: "):
            return _hex(head)
        name = head.removeprefix("ref: ")
        common = git / "commondir"  # of a further worktree, to the first one's
        places = [git, git / common.read_text().strip()] if common.is_file() else [git]
        for place in places:
            if (place / name).is_file():
                return _hex((place / name).read_text().strip())
        lines = (places[-1] / "packed-refs").read_text().splitlines()
    except (OSError, ValueError):
        return ""
    return next((_hex(line.split(" ")[0]) for line in lines if line.endswith(f" {name}")), "")


def _hex(text: str) -> str:
    return text if len(text) >= _COMMIT_DIGITS and set(text) <= set("0123456789abcdef") else ""
