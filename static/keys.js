// Keyboard: "/" goes to the search, "g" and then a place's own key (data-key) to that place, "?" lists all keys. Not while typing, not with
// modifiers. Another key in between ends it.
import { open } from "./dialogs.js";
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
  } else if (event.key === "?") {
    event.preventDefault();
    open(listOfKeys(), document.activeElement);
  } else if (event.key === "g") {
    pendingSince = event.timeStamp;
  } else {
    const isSecond = event.timeStamp - pendingSince < SECOND_KEY_MS;
    pendingSince = -SECOND_KEY_MS;
    if (isSecond) document.querySelector(`.places > a[data-key="${CSS.escape(event.key)}"]`)?.click();
  }
});

function listOfKeys() {
  const keys = [["/", "Search topics and channels"]];
  for (const place of document.querySelectorAll(".places > a[data-key]")) keys.push([`g ${place.dataset.key}`, `Go to ${place.textContent}`]);
  if (document.querySelector("[data-messages]")) {
    keys.push(["j", "Next message"], ["k", "Previous message"], ["x", "Select or unselect it"], ["Enter", "Unfold its body"]);
  }
  keys.push(["?", "List the keys"], ["Esc", "Close a dialog or a menu"]);
  const body = document.createElement("div");
  body.className = "dialog-body keys";
  body.innerHTML = `<h2>Keys</h2><dl></dl>
    <div class="form-row-inline act-buttons"><button type="button" class="button" data-close autofocus>Close</button></div>`;
  for (const [key, text] of keys) {
    const [name, meaning] = ["dt", "dd"].map((tag) => document.createElement(tag));
    for (const part of key.split(" ")) {
      const cap = document.createElement("kbd");
      cap.textContent = part;
      name.append(cap, " ");
    }
    meaning.textContent = text;
    body.querySelector("dl").append(name, meaning);
  }
  return body;
}

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
