// Selected rows of a list, and the acts on them: a bar appears with the first one (penstock.css), an act opens as a dialog.
// Without scripts the bar's buttons lead to the same question as a page.
import { askInDialog } from "./dialogs.js";

const NAMES_MAX = 3;
const REASONS_MAX = 2;
const LINK_LENGTH_MAX = 4_000; // proxies take 8 KB, Daphne 16 KB

document.addEventListener("change", ({ target }) => {
  const matching = target.closest(".select-all-of");
  if (matching) showSelected(matching.closest(".panel").querySelector("table"));
  const table = target.closest(".select-cell") && target.closest("table");
  if (!table) return;
  if (!target.checked) matchingOf(table).forEach((box) => (box.checked = false));
  if (target.dataset.selectAll !== undefined) for (const box of boxesOf(table)) box.checked = target.checked;
  showSelected(table);
});

document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-unselect]")) unselectAll();
});

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (!form.matches(".selected-acts")) return;
  event.preventDefault();
  if (submitter.ariaDisabled) return;
  const fields = new FormData(form);
  const names = fields.getAll("on"); // none where nodes are selected, whose field has its own name
  // The rows on the page are among all that match.
  fields.delete("on");
  if (names.length && !fields.has("all")) fields.set("on", names.join("\n"));
  const forPost = ["ask", "csrfmiddlewaretoken"].map((name) => [name, fields.get(name)]);
  for (const [name] of forPost) fields.delete(name);
  const link = `${submitter.formAction}?${new URLSearchParams(fields)}`;
  if (link.length <= LINK_LENGTH_MAX) askInDialog(link, submitter);
  else {
    for (const [name, value] of forPost) fields.set(name, value);
    askInDialog(submitter.formAction, submitter, new URLSearchParams(fields));
  }
});

// After the results the selection is empty; failed rows can be tried again from the results.
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
    showSelected(table);
  }
}

function boxesOf(table) {
  return [...table.tBodies[0].querySelectorAll(".select-cell input")];
}

// The box for all that match, where the list has further pages.
function matchingOf(table) {
  return [...table.closest(".panel").querySelectorAll(".select-all-of input")];
}

// The words and acts of its bar.
export function showSelected(table) {
  const boxes = boxesOf(table);
  const count = boxes.filter((box) => box.checked).length;
  const all = table.tHead.querySelector("[data-select-all]");
  all.checked = count > 0 && count === boxes.length;
  all.indeterminate = count > 0 && count < boxes.length;
  const words = document.querySelector(`[data-selected-of="${table.dataset.table}"]`);
  if (!words) return;
  const [matching] = matchingOf(table);
  nameNodes(words.parentElement, boxes);
  words.textContent = matching?.checked ? `All ${matching.parentElement.querySelector("b").textContent} selected` : `${count} selected`;
}

// Where nodes are selected the acts carry their names. An act that none of them can do is off, and the reasons stand beside.
function nameNodes(form, boxes) {
  const place = form.querySelector("[data-reasons]");
  if (!place) return;
  const names = boxes.filter((box) => box.checked).map((box) => box.value);
  for (const button of form.querySelectorAll("[data-unable]")) {
    const unable = button.dataset.unable.split(" ");
    const able = names.filter((name) => !unable.includes(name));
    const where = able.length > NAMES_MAX ? `${able.length} nodes` : able.join(", ");
    button.textContent = `${button.dataset.label}${where && ` on ${where}`}…`;
    button.ariaDisabled = able.length ? null : "true";
  }
  const all = JSON.parse(place.dataset.reasons);
  const reasons = names.map((name) => all[name]).filter(Boolean);
  const more = reasons.length - REASONS_MAX;
  place.textContent = [...reasons.slice(0, REASONS_MAX), ...(more > 0 ? [`${more} more can't do all of them.`] : [])].join(" ");
}
