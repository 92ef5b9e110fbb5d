"""plotly.js for browsers: copied from the installed plotly package at start and compressed once.

Its file name in the data directory contains its hash, so a browser fetches it once; a newer package has another hash
and so another name.
"""

import gzip
import hashlib
import logging
import re
from functools import lru_cache
from importlib import resources
from pathlib import Path

from django.conf import settings
from django.templatetags.static import static

from admin_console.vocabulary.private_files import file_defect, write_private_file

logger = logging.getLogger(__name__)

# if(!document.getElementById("<64 hex digits>")){var e=document.createElement("style");…
_STYLE_ID = re.compile(rb'!document\.getElementById\("([0-9a-f]{64})"\)')
_PREFIX = "plotly-"
_HASH_LENGTH = 16  # hex digits; whitenoise takes 8 or more between dots or dashes for a name that never changes


def prepare(data_path: Path) -> str:
    """Put plotly.js and its compressed twin into `data_path`/static, and take older ones away.

    Returns its file name. Quick when the file is there already; else compressing takes half a second. To be called
    before Django's handler is made, which looks the static files up.
    """
    content = _source()
    name = f"{_PREFIX}{hashlib.sha256(content).hexdigest()[:_HASH_LENGTH]}.min.js"
    folder = Path(data_path) / "static"
    folder.mkdir(parents=True, exist_ok=True)
    plain, packed = folder / name, folder / f"{name}.gz"
    if (
        file_defect(plain)
        or file_defect(packed)
        or not (packed.exists() and plain.exists() and plain.stat().st_size == len(content))
    ):
        _write(packed, gzip.compress(content, compresslevel=6, mtime=0))
        _write(plain, content)
        logger.info("prepared plotly bytes=%d compressed=%d", len(content), packed.stat().st_size)
    for old in folder.glob(f"{_PREFIX}*"):
        if not old.name.startswith(name):
            old.unlink()
    plotly_url.cache_clear()
    return name


@lru_cache(maxsize=1)
def plotly_url() -> str:
    """The path browsers fetch it from; "" when `prepare` has not run: pages then have tables alone."""
    folder = Path(settings.DATA_PATH) / "static"
    names = sorted(path.name for path in folder.glob(f"{_PREFIX}*.min.js"))
    return static(names[-1]) if names else ""


@lru_cache(maxsize=1)
def plotly_style_ids() -> str:
    """Ids of the style sheets that plotly.js would add inline, separated by spaces.

    plotly.js adds one only where no element has its id, so a page with such elements needs no exception in its policy.
    """
    return " ".join(sorted({found.decode() for found in _STYLE_ID.findall(_source())}))


def _source() -> bytes:
    return (resources.files("plotly") / "package_data" / "plotly.min.js").read_bytes()


def _write(path: Path, content: bytes) -> None:
    if path.is_symlink():
        path.unlink()
    write_private_file(path, content)
