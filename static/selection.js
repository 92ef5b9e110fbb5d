// Selected rows of a list, and the acts on them: a bar appears with the first one (penstock.css), an act opens as a dialog.
// Without scripts the bar's buttons lead to the same question as a page.
import { askInDialog } from "./dialogs.js";

document.addEventListener("change", ({ target }) => {
  const table = target.closest(".select-cell") && target.closest("table");
  if (!table) return;
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
  askInDialog(`${submitter.formAction}?${new URLSearchParams(new FormData(form))}`, submitter);
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
    for (const box of boxesOf(table)) box.checked = false;
    show(table);
  }
}

function boxesOf(table) {
  return [...table.tBodies[0].querySelectorAll(".select-cell input")];
}

function show(table) {
  const boxes = boxesOf(table);
  const count = boxes.filter((box) => box.checked).length;
  const all = table.tHead.querySelector("[data-select-all]");
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  const words = document.querySelector(`[data-selected-of="${table.dataset.table}"]`);
  if (words) words.textContent = `${count} selected`;
}
