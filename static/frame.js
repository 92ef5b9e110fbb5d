// Puts a frame's words into the page. Cells change in place; rows move only while nobody is using their table.
const REORDER_EVERY_MS = 5_000;
const SAY_EVERY_MS = 15_000;
const SPARK_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";
const SPARK_WIDTH = 118;
const SPARK_HEIGHT = 24;

const root = document.getElementById("content");
const reorderedAt = new Map();
let saidAt = performance.now();
let saidMeaning = null;

export function applyFrame(frame) {
  // What is gone has another page, and so has what came back: each page stays while it is the right one.
  const showsGone = !root.querySelector("[data-strip], [data-table]");
  if (Boolean(frame.flags.gone) !== showsGone || (isFirstRun() && frame.flags.first_run === false)) {
    reloadOnce();
    return;
  }
  if (showsGone) return;
  setText(root.querySelector("[data-subtitle]"), frame.subtitle);
  applyChips(root.querySelector("[data-chips]"), frame.chips);
  applyMeaning(frame.meaning);
  for (const [name, figure] of Object.entries(frame.strip)) applyFigure(name, figure);
  for (const [name, table] of Object.entries(frame.tables)) applyTable(name, table);
  for (const [name, text] of Object.entries(frame.texts)) {
    const element = root.querySelector(`[data-text="${name}"]`);
    if (element) setText(element, text);
  }
  for (const [name, isOn] of Object.entries(frame.flags)) {
    for (const element of root.querySelectorAll(`[data-when="${name}"]`)) element.hidden = !isOn;
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
  if (element && element.textContent !== text) element.textContent = text;
}

function setTitle(element, title) {
  if (title) {
    if (element.title !== title) element.title = title;
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

// A cell is its text, or [text, title, tone].
function setCell(element, cell) {
  const [text, title, tone] = Array.isArray(cell) ? cell : [cell, "", ""];
  setText(element, text);
  setTitle(element, title);
  setTone(element, "tone-", tone);
}

function applyFigure(name, [value, note]) {
  const place = root.querySelector(`[data-figure="${name}"]`);
  if (!place) return;
  setCell(place.querySelector(".value"), value);
  setCell(place.querySelector(".note"), note);
}

function applyMeaning(meaning) {
  const place = root.querySelector("[data-meaning]");
  if (!place) return;
  place.hidden = !meaning;
  const title = meaning ? meaning[1] : "";
  // Said aloud rarely, and only when what is wrong has changed.
  if (title !== saidMeaning && performance.now() - saidAt > SAY_EVERY_MS) {
    if (saidMeaning !== null) setText(document.getElementById("live-summary"), title || "All is well again.");
    saidAt = performance.now();
    saidMeaning = title;
  }
  if (!meaning) return;
  const [tone, , text, href, link] = meaning;
  setTone(place, "meaning-", tone);
  setText(place.querySelector("strong"), title);
  setText(place.querySelector("span"), text);
  const anchor = place.querySelector("a");
  anchor.hidden = !href;
  if (href) anchor.setAttribute("href", href);
  setText(anchor, link);
}

function applyChips(place, chips) {
  if (!place) return;
  const sign = JSON.stringify(chips);
  if (place.dataset.sign === sign) return;
  place.dataset.sign = sign;
  place.replaceChildren(
    ...chips.map(([text, tone, title]) => {
      const chip = document.createElement("span");
      chip.className = tone ? `chip chip-${tone}` : "chip";
      chip.textContent = text;
      setTitle(chip, title);
      return chip;
    }),
  );
}

function applyTable(name, { keys, columns }) {
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
      body.append(row);
      rows.set(key, row);
    }
    delete row.dataset.gone;
    for (const column of names) {
      const cell = row.querySelector(`[data-cell="${column}"]`);
      if (cell) applyCell(cell, columns[column][index]);
    }
  });
  const isInUse = table.matches(":hover, :focus-within") || document.querySelector("dialog[open]") || hasSelection(table);
  for (const [key, row] of rows) {
    if (wanted.has(key)) continue;
    // Under the pointer nothing may jump: what is gone only fades until the table is left alone.
    if (isInUse) row.dataset.gone = "1";
    else row.remove();
  }
  if (!isInUse) reorder(name, body, keys);
  const isEmpty = body.rows.length === 0;
  table.hidden = isEmpty;
  const empty = root.querySelector(`[data-empty-of="${name}"]`);
  if (empty) empty.hidden = !isEmpty;
}

function hasSelection(table) {
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

function applyCell(cell, value) {
  if (cell.classList.contains("state")) {
    applyChips(cell, value);
  } else if (cell.classList.contains("name")) {
    applyName(cell, value);
  } else if (cell.classList.contains("spark-cell")) {
    applySpark(cell.firstElementChild, value);
  } else if (cell.classList.contains("progress-cell")) {
    applyProgress(cell, value);
  } else if (cell.classList.contains("action-cell")) {
    applyAction(cell, value);
  } else {
    setCell(cell, value);
  }
}

// A bar without a total is not known, and not shown.
function applyProgress(cell, [done, total, text, title]) {
  const bar = cell.querySelector("progress");
  bar.hidden = !total;
  if (total && bar.max !== total) bar.max = total;
  if (bar.value !== done) bar.value = done;
  setText(cell.querySelector("span"), text);
  setTitle(cell, title);
}

function applyName(cell, [text, href, parent]) {
  const link = cell.querySelector("a");
  if (link.getAttribute("href") === href) return;
  link.setAttribute("href", href);
  link.replaceChildren();
  if (parent) {
    const small = document.createElement("small");
    small.textContent = `${parent} /`;
    link.append(small, " ");
  }
  link.append(text);
}

function applyAction(cell, [text, href, title]) {
  const sign = `${text} ${href} ${title}`;
  if (cell.dataset.sign === sign) return;
  cell.dataset.sign = sign;
  if (!text) {
    cell.replaceChildren();
    return;
  }
  const current = cell.firstElementChild;
  if (href && current?.tagName === "A") {
    // The same element, so that a focus on it stays.
    if (current.getAttribute("href") !== href) current.setAttribute("href", href);
    setText(current, text);
    return;
  }
  const button = document.createElement(href ? "a" : "span");
  button.className = "button button-small";
  button.textContent = text;
  if (href) {
    button.href = href;
    button.dataset.dialog = "";
  } else {
    button.setAttribute("aria-disabled", "true");
    button.title = title;
  }
  cell.replaceChildren(button);
}

// A sparkline is a letter a bucket: "0" lowest, "z" highest, "." not known.
function applySpark(svg, [letters, tone]) {
  setTone(svg, "spark-", tone);
  if (svg.dataset.letters === letters) return;
  svg.dataset.letters = letters;
  const step = SPARK_WIDTH / Math.max(1, letters.length - 1);
  const rise = (SPARK_HEIGHT - 2) / (SPARK_LETTERS.length - 1);
  let path = "";
  let isDrawing = false;
  [...letters].forEach((letter, index) => {
    const level = SPARK_LETTERS.indexOf(letter);
    if (level < 0) {
      isDrawing = false;
      return;
    }
    path += `${isDrawing ? "L" : "M"}${Math.round(index * step)} ${(SPARK_HEIGHT - 1 - level * rise).toFixed(1)}`;
    isDrawing = true;
  });
  svg.firstElementChild.setAttribute("d", path);
}
