"""The README's recipe for a console below a sub-path: what it changes in the texts for nginx and Caddy."""

import re

from tests.support.processes.recipe_proxy import CONSOLE, HOST, README, recipe, replaced

ROOT_PATH = "/queue/"
OTHERS = "another service"  # what the host answers elsewhere


def nginx_recipe(*, takes_path_off: bool = False) -> str:
    """takes_path_off: as many configure it, though the recipe does not."""
    change = re.search(r"`(location [^`]+)` takes the place of `(location [^`]+)`", README.read_text())
    assert change is not None
    others = f"location / {{ return 200 '{OTHERS}'; }}\n    "
    text = replaced(recipe("nginx"), (change[2], others + change[1]))
    return replaced(text, (f"{CONSOLE};", f"{CONSOLE}/;")) if takes_path_off else text


def caddy_recipe(authority: str) -> str:
    """authority: the host with the port that it listens on."""
    return replaced(recipe("caddy", 1), (f"{HOST} {{", f'{authority} {{\n    respond / "{OTHERS}"'))
