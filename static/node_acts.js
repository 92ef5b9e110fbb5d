// The buttons of acts, and the reasons why nodes can't do them, are of the nodes that the page shows and of the programs that
// these run. When either changes the page fetches its buttons anew.
import { setHtml } from "./page_update.js";
import { showSelected } from "./selection.js";

const EVERY_MS = 5_000;
const EVERY_MAX_MS = 60_000; // while it fails

let shown = nodesOf(document); // those that the buttons are of
let everyMs = EVERY_MS;
let nextAt = 0;

// Called after each update.
export function followNodes() {
  if (nodesOf(document) === shown || performance.now() < nextAt) return;
  nextAt = performance.now() + everyMs;
  everyMs = Math.min(everyMs * 2, EVERY_MAX_MS);
  fetchButtons().catch(() => {}); // a later update tries again
}

function nodesOf(page) {
  const rows = page.querySelectorAll('[data-table="by_node"] tbody tr:not([data-gone])');
  const programs = page.querySelectorAll('[data-table="facts"] tr[data-key="Program"] [data-cell="value"]');
  const nodes = [...rows].map((row) => `${row.dataset.key} ${row.querySelector('[data-cell="version"]')?.textContent}`);
  return [...nodes.sort(), ...[...programs].map((cell) => cell.textContent)].join("\n");
}

async function fetchButtons() {
  const answer = await fetch(location.pathname, { credentials: "same-origin", redirect: "manual" });
  if (answer.type === "opaqueredirect") nextAt = Infinity; // a log-in, such as a proxy's: each of these may begin anew there
  if (!answer.ok) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const place of document.querySelectorAll(".page-head > .actions, .selected-acts[id]")) {
    const wanted = page.querySelector(place.matches(".actions") ? ".page-head > .actions" : `#${place.id}.selected-acts`);
    if (wanted) setHtml(place, wanted.innerHTML);
  }
  shown = nodesOf(page);
  everyMs = EVERY_MS;
  for (const table of document.querySelectorAll("table:has(.select-cell)")) showSelected(table);
}
