// Puts an update into the page. Cells change in place; rows move only while no pointer or focus is in their table.
import { inZone, showTimes } from "./clock.js";

const REORDER_EVERY_MS = 5_000;
const SAY_EVERY_MS = 15_000;

const root = document.getElementById("content");
const reorderedAt = new Map();
const shown = new WeakMap(); // element → the HTML that was put into it last
let saidAt = performance.now();
let saidCause = null;

// Whether the page's topic or channel is gone by now. The page reloads then, but not behind an open dialog.
export function isGone(update) {
  return Boolean(update.flags.gone) && !showsGone();
}

function showsGone() {
  return !root.querySelector("[data-stats], [data-table]");
}

export function applyUpdate(update) {
  // A deleted topic or channel has another page, and so has one that came back: then the page reloads.
  // So has a server that begins to read other nodes, or ends it.
  const isOther = !showsGone() && Boolean(root.querySelector("[data-silence]")) !== Boolean(update.nodes);
  if (Boolean(update.flags.gone) !== showsGone() || (isFirstRun() && update.flags.first_run === false) || isOther) {
    reloadOnce();
    return;
  }
  if (showsGone()) return;
  setText(root.querySelector("[data-subtitle]"), update.subtitle);
  setHtml(root.querySelector("[data-chips]"), update.chips);
  if (update.nodes) setHtml(root.querySelector("[data-silence]"), update.silence);
  applyBanner(update.banner);
  for (const [name, stat] of Object.entries(update.stats)) applyStat(name, stat);
  for (const [name, table] of Object.entries(update.tables)) applyTable(name, table);
  for (const [name, text] of Object.entries(update.texts)) {
    const element = root.querySelector(`[data-text="${name}"]`);
    if (element) setText(element, text);
  }
  for (const [name, isOn] of Object.entries(update.flags)) {
    for (const element of root.querySelectorAll(`[data-when="${name}"]`)) {
      // An element that comes and goes each second would move the acts beside it from under the pointer.
      if (isOn || !element.hasAttribute("data-stays")) element.hidden = !isOn;
    }
  }
}

function isFirstRun() {
  const empty = root.querySelector('[data-empty-of="urgent"], [data-empty-of="topics"]');
  return document.body.dataset.subscribe.includes('"overview"') && Boolean(empty?.querySelector("pre")) && !empty.hidden;
}

function reloadOnce() {
  if (document.body.dataset.reloading || document.querySelector("dialog[open]")) return;
  document.body.dataset.reloading = "1";
  location.reload();
}

function setText(element, text) {
  if (!element) return;
  const words = inZone(text);
  if (element.textContent !== words) element.textContent = words;
}

function setTitle(element, title) {
  if (title) {
    const words = inZone(title);
    if (element.title !== words) element.title = words;
  } else if (element.hasAttribute("title")) {
    element.removeAttribute("title");
  }
}

function setTone(element, prefix, tone) {
  const wanted = tone ? prefix + tone : "";
  for (const name of [...element.classList]) {
    if (name.startsWith(prefix) && name !== wanted) element.classList.remove(name);
  }
  if (wanted) element.classList.add(wanted);
}

// The server escapes its content (screens/cells.py).
export function setHtml(element, html) {
  if (!element || shown.get(element) === html) return;
  shown.set(element, html);
  const wanted = document.createElement("template");
  wanted.innerHTML = html;
  if (/UTC|<time/.test(html)) showTimes(wanted.content);
  match(element, wanted.content);
}

// Elements that do not change stay, so that a focus, a pointer or the opener of a dialog does not lose them.
function match(place, wanted) {
  const nodes = [...wanted.childNodes];
  nodes.forEach((node, index) => {
    const old = place.childNodes[index];
    if (!old) {
      place.append(node);
    } else if (old.nodeName !== node.nodeName) {
      old.replaceWith(node);
    } else if (node.nodeType === Node.TEXT_NODE) {
      if (old.data !== node.data) old.data = node.data;
    } else {
      for (const { name } of [...old.attributes]) if (!node.hasAttribute(name)) old.removeAttribute(name);
      for (const { name, value } of node.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
      match(old, node);
    }
  });
  while (place.childNodes.length > nodes.length) place.lastChild.remove();
}

// A cell is its HTML, or [HTML, tone, title].
function setCell(element, cell) {
  const [html, tone = "", title = ""] = Array.isArray(cell) ? cell : [cell];
  setHtml(element, html);
  setTitle(element, title);
  setTone(element, "tone-", tone);
}

function applyStat(name, [value, note]) {
  const place = root.querySelector(`[data-stat="${name}"]`);
  if (!place) return;
  setCell(place.querySelector(".value"), value);
  setCell(place.querySelector(".note"), note);
}

function applyBanner(banner) {
  const place = root.querySelector("[data-banner]");
  if (!place) return;
  place.hidden = !banner;
  const [tone = "", title = "", text = "", href = "", link = "", note = "", acts = "", cause = title] = banner ?? [];
  // Screen readers announce it rarely, and only when the cause has changed, not its figures.
  if (cause !== saidCause && performance.now() - saidAt > SAY_EVERY_MS) {
    if (saidCause !== null) setText(document.getElementById("live-summary"), title || "All is well again.");
    saidAt = performance.now();
    saidCause = cause;
  }
  if (!banner) return;
  setTone(place, "banner-", tone);
  setText(place.querySelector("strong"), title);
  setText(place.querySelector("span"), text);
  const small = place.querySelector("[data-banner-note]");
  small.hidden = !note;
  setText(small, note);
  const buttons = place.querySelector("[data-banner-acts]");
  buttons.hidden = !acts;
  setHtml(buttons, acts);
  const anchor = place.querySelector("a");
  anchor.hidden = !href;
  if (href) anchor.setAttribute("href", href);
  setText(anchor, link);
}

function applyTable(name, { keys, columns, empty: words }) {
  const table = root.querySelector(`[data-table="${name}"]`);
  if (!table) return;
  const body = table.tBodies[0];
  const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  const wanted = new Set(keys);
  const names = Object.keys(columns);
  keys.forEach((key, index) => {
    let row = rows.get(key);
    if (!row) {
      row = root.querySelector(`[data-row-of="${name}"]`).content.firstElementChild.cloneNode(true);
      row.dataset.key = key;
      nameCheckbox(row, key);
      body.append(row);
      rows.set(key, row);
    }
    delete row.dataset.gone;
    for (const column of names) {
      const cell = row.querySelector(`[data-cell="${column}"]`);
      if (cell) setCell(cell, columns[column][index]);
    }
  });
  const isInUse = table.matches(":hover, :focus-within") || document.querySelector("dialog[open]") || hasSelection(table);
  for (const [key, row] of rows) {
    if (wanted.has(key)) continue;
    // Under the pointer no row may move: rows that are gone only fade until the pointer leaves the table.
    if (isInUse) row.dataset.gone = "1";
    else row.remove();
  }
  if (!isInUse) reorder(name, body, keys);
  const isEmpty = body.rows.length === 0;
  table.hidden = isEmpty;
  const empty = root.querySelector(`[data-empty-of="${name}"]`);
  if (!empty) return;
  empty.hidden = !isEmpty;
  if (words) setHtml(empty, words);
}

// A row that is new to the page is selected by its own key.
function nameCheckbox(row, key) {
  const checkbox = row.querySelector(".select-cell input");
  if (!checkbox) return;
  if (key === "*") return checkbox.closest("label").remove(); // the row of all others
  checkbox.value = key;
  checkbox.setAttribute("aria-label", `Select ${key}`);
}

function hasSelection(table) {
  if (table.querySelector(".select-cell input:checked")) return true;
  const selection = getSelection();
  return Boolean(selection && !selection.isCollapsed && table.contains(selection.anchorNode));
}

function reorder(name, body, keys) {
  const now = performance.now();
  if (now - (reorderedAt.get(name) ?? 0) < REORDER_EVERY_MS) return;
  reorderedAt.set(name, now);
  const rows = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  keys.forEach((key, index) => {
    const row = rows.get(key);
    if (row && body.rows[index] !== row) body.insertBefore(row, body.rows[index] ?? null);
  });
}
