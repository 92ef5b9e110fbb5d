// Selected rows of a list, and the acts on them: a bar appears with the first one (penstock.css), an act opens as a dialog.
// Without scripts the bar's buttons lead to the same question as a page.
import { askInDialog } from "./dialogs.js";

const NAMED_MAX = 100; // in a link

document.addEventListener("change", ({ target }) => {
  const matching = target.closest(".select-all-of");
  if (matching) show(matching.closest(".panel").querySelector("table"));
  const table = target.closest(".select-cell") && target.closest("table");
  if (!table) return;
  if (!target.checked) matchingOf(table).forEach((box) => (box.checked = false));
  if (target.dataset.selectAll !== undefined) for (const box of boxesOf(table)) box.checked = target.checked;
  show(table);
});

document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-unselect]")) unselectAll();
});

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (!form.matches(".selected-acts")) return;
  event.preventDefault();
  const fields = new FormData(form);
  const names = fields.getAll("on");
  // What the page shows is among all that match. A topic's page shows all of its channels: many of them are not named.
  const isAll = fields.has("all") || (fields.has("of") && names.length > NAMED_MAX && isWhole(form.id));
  if (isAll) fields.set("all", "1");
  if (isAll) fields.delete("on");
  else fields.set("on", names.join("\n"));
  askInDialog(`${submitter.formAction}?${new URLSearchParams(fields)}`, submitter);
});

// The results have been read: what was selected is done, or is asked again from there.
document.addEventListener(
  "close",
  ({ target }) => {
    if (target.querySelector?.(".bulk-results")) unselectAll();
  },
  true,
);

function unselectAll() {
  for (const table of document.querySelectorAll("table:has(.select-cell)")) {
    for (const box of matchingOf(table)) box.checked = false;
    for (const box of boxesOf(table)) box.checked = false;
    show(table);
  }
}

function isWhole(form) {
  return [...document.querySelectorAll(`.select-cell input[form="${form}"]`)].every((box) => box.checked);
}

function boxesOf(table) {
  return [...table.tBodies[0].querySelectorAll(".select-cell input")];
}

// The box for all that match, where the list has further pages.
function matchingOf(table) {
  return [...table.closest(".panel").querySelectorAll(".select-all-of input")];
}

function show(table) {
  const boxes = boxesOf(table);
  const count = boxes.filter((box) => box.checked).length;
  const all = table.tHead.querySelector("[data-select-all]");
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  const words = document.querySelector(`[data-selected-of="${table.dataset.table}"]`);
  if (!words) return;
  const [matching] = matchingOf(table);
  words.textContent = matching?.checked ? `All ${matching.parentElement.querySelector("b").textContent} selected` : `${count} selected`;
}
