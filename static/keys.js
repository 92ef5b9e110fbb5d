// Keyboard: "/" goes to the search, "g" and then a place's own key (data-key) to that place. Not while typing, not with
// modifiers. Another key in between ends it.
import { shortcutsAreOn } from "./shortcuts.js";

const SECOND_KEY_MS = 1_500; // at most so long after "g"
let pendingSince = -SECOND_KEY_MS;

addEventListener("keydown", (event) => {
  if (!shortcutsAreOn()) return;
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
  if (event.key === "/") {
    const search = document.querySelector(".search input");
    if (!search) return;
    event.preventDefault();
    if (!search.checkVisibility()) document.getElementById("menu").showPopover(); // a narrow window has it in the menu
    search.focus();
    search.select();
  } else if (event.key === "g") {
    pendingSince = event.timeStamp;
  } else {
    const isSecond = event.timeStamp - pendingSince < SECOND_KEY_MS;
    pendingSince = -SECOND_KEY_MS;
    if (isSecond) document.querySelector(`.places > a[data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});

// The menus of the header close at a click elsewhere and at Escape.
for (const menu of document.querySelectorAll(".who, .more-places")) {
  document.addEventListener("click", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}
// A phone's menu that is open while the phone is turned: its parts stand in the header again.
matchMedia("(max-width: 640px)").addEventListener("change", () => document.getElementById("menu")?.hidePopover?.());
