// The pages of messages: deadlines count down, a selection is counted, and the keys j, k, x and Enter
// move, select and unfold. Without scripts the same pages show, unfold and act.
import { duration } from "./history_drawing.js";
import { showCopyButtons } from "./message_copy.js";
import { startRefresh } from "./message_refresh.js";
import { shortcutsAreOn } from "./shortcuts.js";

const list = document.querySelector("[data-messages]");
// In a narrow window the states scroll sideways.
const showTab = () => document.querySelector(".state-tab[aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
showTab();

// Deadlines. The server gave the time left when it made the page; each figure is written once a second at most.
let startedAt = 0;
let deadlines = [];
function readDeadlines() {
  startedAt = performance.now();
  deadlines = [...document.querySelectorAll("[data-left-ms]")].map((cell) => [cell, Number(cell.dataset.leftMs)]);
}
function countDown() {
  const passed = performance.now() - startedAt;
  for (const [cell, left] of deadlines) {
    const text = left > passed ? duration(left - passed) : "due now";
    if (cell.firstChild.data !== text) cell.firstChild.data = text;
  }
}
readDeadlines();
setInterval(countDown, 1_000);

// The selection.
const boxes = () => [...list.querySelectorAll('input[name="id"][type="checkbox"]')];
const all = list?.querySelector("[data-select-all]");
function showSelection() {
  if (!all) return;
  const chosen = boxes().filter((box) => box.checked).length;
  all.checked = chosen > 0 && chosen === boxes().length;
  all.indeterminate = chosen > 0 && !all.checked;
  list.querySelector("[data-chosen]").textContent = chosen ? `${chosen} selected` : "none selected";
  list.toggleAttribute("data-has-chosen", chosen > 0);
}
if (all) {
  all.closest("[hidden]").hidden = false;
  all.addEventListener("change", () => {
    for (const box of boxes()) box.checked = all.checked;
    showSelection();
  });
  list.addEventListener("change", showSelection);
  showSelection();
}
// A second click must not post an act twice.
list?.addEventListener("submit", (event) => {
  if (event.submitter && "download" in event.submitter.dataset) return; // this page stays
  if (list.dataset.sent) event.preventDefault();
  list.dataset.sent = "1";
});
addEventListener("pageshow", () => {
  if (list) delete list.dataset.sent;
});

// Only one question is open; Escape and a click elsewhere close it.
const questions = () => [...document.querySelectorAll("details.confirm")];
function closeQuestions(but) {
  for (const each of questions()) if (each !== but) each.open = false;
}
document.addEventListener("click", (event) => closeQuestions(event.target.closest("details.confirm")));
addEventListener("keydown", (event) => {
  const open = event.key === "Escape" && questions().find((each) => each.open);
  if (!open) return;
  open.open = false;
  open.querySelector("summary").focus();
});

// Keys, one at a time: not while typing, not with modifiers, not in a dialog.
let at = null;

// Rows that were fetched anew.
startRefresh(() => {
  at = document.querySelector(`tbody[data-message="${at?.dataset.message}"]`);
  if (at) at.dataset.at = "";
  showTab();
  readDeadlines();
  showCopyButtons();
  showSelection();
});
showCopyButtons();
const moves = { j: 1, k: -1 };
addEventListener("keydown", (event) => {
  if (!shortcutsAreOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest('input:not([type="checkbox"]), textarea, select, [contenteditable], dialog')) return;
  if (event.key in moves) move(moves[event.key]);
  else if (event.key === "x" && at) {
    const box = at.querySelector('input[name="id"]');
    if (box) {
      box.checked = !box.checked;
      showSelection();
    }
  }
});

function move(by) {
  const rows = [...document.querySelectorAll("tbody[data-message]")];
  if (!rows.length) return;
  const from = rows.indexOf(at);
  const to = rows[Math.min(Math.max(from < 0 ? 0 : from + by, 0), rows.length - 1)];
  if (at) delete at.dataset.at;
  at = to;
  at.dataset.at = "";
  at.scrollIntoView({ block: "nearest" });
  // Enter unfolds the focused message; where no body may be seen, it opens the message's own page.
  at.querySelector(at.querySelector("details.unfold") ? "details.unfold > summary" : "td.name a").focus({ preventScroll: true });
}
