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
    search.focus();
    search.select();
  } else if (event.key === "g") {
    pendingSince = event.timeStamp;
  } else {
    const isSecond = event.timeStamp - pendingSince < SECOND_KEY_MS;
    pendingSince = -SECOND_KEY_MS;
    if (isSecond) document.querySelector(`.places a[data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});

// The user menu closes at a click elsewhere and at Escape.
const who = document.querySelector(".who");
if (who) {
  document.addEventListener("click", (event) => {
    if (who.open && !who.contains(event.target)) who.open = false;
  });
  who.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    who.open = false;
    who.querySelector("summary").focus();
  });
}
