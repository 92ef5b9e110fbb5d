"""axe-core's rules on an open page. Its script comes with axe-playwright-python."""

from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

_AXE = Axe()
# Beside the rules that are on anyway: targets of at least 24 by 24 pixels, or as far apart (WCAG 2.5.8).
_RULES = {"target-size": {"enabled": True}}
_IS_THERE = "typeof window.axe === 'object'"
# Style sheets need not be fetched again: no rule that is on looks into them.
# The page stands still meanwhile: what its frames change comes afterwards.
_RUN = """async ([within, options]) => {
  const [paint, held] = [window.requestAnimationFrame, []];
  window.requestAnimationFrame = (change) => held.push(change);
  const {violations} = await axe
    .run(within || document, {resultTypes: ["violations"], preload: false, ...options})
    .finally(() => {
      window.requestAnimationFrame = paint;
      for (const change of held) requestAnimationFrame(change);
    });
  return violations.flatMap(({id, nodes}) => nodes.map((node) => `${id}: ${node.target.join(" ")}: ${node.html}`));
}"""


def violations(page: Page, within: str = "", *, colours_only: bool = False) -> list[str]:
    """Returns axe's findings, a line each: the rule, the place and the element.

    within: a selector, "" for the whole page. colours_only: as far as a change of theme can alter it.
    """
    if not page.evaluate(_IS_THERE):
        page.evaluate(_AXE.axe_script)
    options: dict[str, Any] = {"runOnly": ["color-contrast"]} if colours_only else {"rules": _RULES}
    found: list[str] = page.evaluate(_RUN, [within, options])
    return found


# Links, buttons and fields that are smaller than 24 by 24 pixels. A label is clicked as well as its field; what stands
# within a sentence is as high as its line.
_SMALL = """() => {
  const isInSentence = (element) => getComputedStyle(element).display === "inline" &&
    [...element.parentElement.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && /\\w/.test(node.data));
  return [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
    .filter((element) => element.checkVisibility({visibilityProperty: true}) && !isInSentence(element))
    .map((element) => [element, (element.closest("label") ?? element).getBoundingClientRect()])
    .filter(([, box]) => box.right > 0 && (box.width < 23.9 || box.height < 23.9))
    .map(([element, box]) => `${box.width} x ${box.height} px: ${element.outerHTML.slice(0, 160)}`);
}"""


def small_targets(page: Page) -> list[str]:
    """Targets of fewer than 24 by 24 pixels, a line each; axe lets small ones pass that stand apart from others."""
    found: list[str] = page.evaluate(_SMALL)
    return found
