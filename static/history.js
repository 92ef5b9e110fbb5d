// Ranges of the past: the picker above the graphs, the data of a range, and its live seconds.
// The range stands in the URL, in UTC; people read and choose times in the zone that the page shows. `step=1s` beside it: a zoom into
// the live seconds, drawn from those as long as the page keeps them, and from the history afterwards. `node=` beside it:
// the graphs of one node of several, which the history alone has.
import { withList } from "./lists.js";
import { liveSeconds, SECONDS, secondsOf } from "./live_seconds.js";
import { fieldOf, momentWords, secondOfField, spanWords, zoneWords } from "./zones.js";

const PRESET_S = { "15m": 900, "1h": 3_600, "6h": 21_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 };
const LIVE = "15m";
const ZOOM_MIN_S = 300;
const ZOOM_SECONDS_MIN_S = 60; // the server's shortest range
const MISSED_MAX_S = 5; // seconds without an update, after which the page fetches them
const REFETCH_MIN_S = 60; // recorded windows take the place of live seconds
const REFETCH_MAX_S = 300;
const LAG_MAX_S = 1_200; // recorded windows end some minutes ago; after more than this the rollup does not run

let place = null; // the picker
// Or {query, seconds}: the URL's, and [first, end] of a zoom into the live seconds. node: "" for all of them.
let chosen = { preset: LIVE, node: "" };
let answer = null; // the server's answer for the range, with live seconds added; null while live
let changed = () => {}; // called for the graphs
let secondsCome = Promise.resolve();
let fetching = null;
let problem = ""; // why the newest fetch brought nothing
let fetchedAt = 0;
let revision = 0;
const filled = new Map(); // field of the form → its filled-in text, and the second of that text

// The range that is drawn, null while the live quarter of an hour is.
export function past() {
  return answer;
}

// secondsCame: a promise that resolves when the live seconds are there.
export function startRanges(onChange, secondsCame) {
  place = document.querySelector("[data-ranges]");
  if (!place) return;
  changed = onChange;
  secondsCome = secondsCame;
  place.querySelector(".segments").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-preset]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    go(link.getAttribute("href"));
  });
  place.querySelector("[data-range-reset]").addEventListener("click", (event) => {
    event.preventDefault();
    resetZoom();
  });
  startForm();
  startNodes();
  new MutationObserver(() => {
    reword();
    changed();
  }).observe(document.documentElement, { attributeFilter: ["data-clock"] });
  addEventListener("popstate", () => choose(rangeOf(location.search)));
  if (place.dataset.complaint === undefined) choose(rangeOf(location.search));
}

function startForm() {
  const details = place.querySelector("details");
  const form = details.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const [from, to] = [form.elements.from, form.elements.to].map(secondIn);
    details.open = false;
    details.querySelector("summary").focus();
    go(`?${queryOf({ first: from, end: to })}`);
  });
  // Before the form opens: its event comes later, when the user may have typed.
  details.querySelector("summary").addEventListener("click", () => {
    if (!details.open) fillForm(form);
  });
  closesLikeAMenu(details);
}

function closesLikeAMenu(details) {
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    details.open = false;
    details.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => {
    if (details.open && !details.contains(event.target)) details.open = false;
  });
}

// The range stays, the node changes.
function startNodes() {
  const details = place.querySelector(".range-nodes");
  if (!details) return;
  closesLikeAMenu(details);
  details.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-node]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    details.open = false;
    details.querySelector("summary").focus();
    const query = new URLSearchParams(location.search);
    query.delete("node");
    query.delete("step"); // no node has seconds of its own
    if (link.dataset.node) query.set("node", link.dataset.node);
    history.pushState(null, "", `?${query}`);
    choose(rangeOf(location.search));
  });
}

function fillForm(form) {
  const now = Date.now() / 1000;
  const first = answer?.from ?? now - PRESET_S[LIVE];
  const end = answer?.to ?? now;
  for (const [field, second] of [[form.elements.from, first], [form.elements.to, end]]) {
    field.value = fieldOf(second);
    filled.set(field, [field.value, Math.floor(second / 60) * 60]);
  }
  for (const zone of form.querySelectorAll("[data-zone]")) zone.textContent = `– ${zoneWords(first, end)}`;
}

// A field that stays as it was filled means the same moment, though its hour may be a repeated one.
function secondIn(field) {
  const [text, second] = filled.get(field) ?? [];
  return field.value === text ? second : secondOfField(field.value);
}

// The range that a query names. Only the server refuses invalid ones.
function rangeOf(search) {
  const query = new URLSearchParams(search);
  const node = query.get("node") ?? "";
  if (!query.get("from") && !query.get("to")) return { preset: query.get("range") || LIVE, node };
  const span = ["from", "to"].map((name) => Date.parse(query.get(name)) / 1000);
  const seconds = query.get("step") === "1s" && span.every(Number.isInteger) ? span : null;
  return { query: search.replace(/^\?/, ""), seconds: node ? null : seconds, node };
}

function queryOf({ first, end }) {
  const time = (second) => new Date(second * 1000).toISOString().replace(/(:00)?\.000Z$/, "Z");
  return `from=${time(first)}&to=${time(end)}`;
}

function go(href, state = null) {
  history.pushState(state, "", withNode(withList(href)));
  choose(rangeOf(location.search));
}

// Another range of the same node.
function withNode(href) {
  const url = new URL(href, location.href);
  if ((url.searchParams.get("node") ?? "") === chosen.node) return href; // times stay readable: searchParams encodes colons
  if (chosen.node) url.searchParams.set("node", chosen.node);
  else url.searchParams.delete("node");
  return url.pathname + url.search;
}

// A zoom makes an entry of its own, so that "back" undoes it; a further zoom takes that one's place.
export function zoomTo(firstS, endS) {
  if (answer && Math.max(Math.abs(firstS - answer.from), Math.abs(endS - answer.to)) < answer.step_s) return resetZoom();
  const href = !answer || (answer.step_s === 1 && !chosen.node) ? hrefOfSeconds(firstS, endS) : hrefOfMinutes(firstS, endS);
  if (history.state?.zoomedFrom) {
    history.replaceState(history.state, "", withNode(withList(href)));
    choose(rangeOf(location.search));
  } else {
    go(href, { zoomedFrom: location.search || "?range=15m" });
  }
}

function hrefOfMinutes(firstS, endS) {
  const [first, end] = widened(Math.floor(firstS / 60) * 60, Math.ceil(endS / 60) * 60, ZOOM_MIN_S, 60);
  return `?${queryOf({ first, end })}`;
}

function hrefOfSeconds(firstS, endS) {
  const { newest } = liveSeconds();
  if (firstS < newest - SECONDS) return hrefOfMinutes(firstS, endS);
  let [first, end] = widened(Math.floor(firstS), Math.ceil(endS), ZOOM_SECONDS_MIN_S, 1);
  const ahead = Math.max(0, end - newest - 1);
  [first, end] = [Math.max(first - ahead, newest - SECONDS + 1), end - ahead];
  return `?${queryOf({ first, end })}&step=1s`;
}

// A span of at least `shortest` seconds, with the same middle, both ends multiples of `step`.
function widened(first, end, shortest, step) {
  const missing = Math.max(0, shortest - (end - first));
  const earlier = first - Math.ceil(missing / 2 / step) * step;
  return missing ? [earlier, earlier + shortest] : [first, end];
}

export function resetZoom() {
  go(history.state?.zoomedFrom ?? "?range=15m");
}

function choose(range) {
  chosen = range;
  revision += 1;
  for (const link of place.querySelectorAll("[data-preset]")) {
    if (link.dataset.preset === range.preset) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  for (const link of place.querySelectorAll("[data-node]")) {
    link.removeAttribute("aria-current");
    if (link.dataset.node !== range.node) continue;
    link.setAttribute("aria-current", "true");
    place.querySelector(".range-nodes > summary").textContent = link.textContent;
  }
  const zoomedFrom = history.state?.zoomedFrom ?? "";
  const isZoomed = Boolean(range.query && (range.seconds || zoomedFrom));
  const reset = place.querySelector("[data-range-reset]");
  place.querySelector("details").toggleAttribute("data-chosen", Boolean(range.query) && !isZoomed);
  place.querySelector("[data-range-zoomed]").textContent = isZoomed ? "Zoomed" : "";
  reset.hidden = !range.query;
  const leadsToLive = !zoomedFrom || rangeOf(zoomedFrom).preset === LIVE;
  reset.textContent = !leadsToLive ? "Undo the zoom" : range.node ? "Last 15 minutes" : "Back to live";
  notice("");
  problem = "";
  fetching?.abort();
  fetching = null;
  if (range.seconds) {
    showSeconds();
    return;
  }
  if (range.preset !== LIVE || range.node) {
    load();
    return;
  }
  busy(false);
  answer = null;
  words("");
  changed();
}

// A zoom into the live seconds: the page's own seconds are drawn as a range, and new ones are added.
async function showSeconds() {
  const mine = revision;
  await secondsCome;
  if (mine !== revision) return;
  const cached = secondsOf(...chosen.seconds);
  if (!cached) return load();
  answer = { ...cached, revision: mine, drawing: performance.now() };
  busy(false);
  reword();
  changed();
}

async function load() {
  const controller = new AbortController();
  const mine = revision;
  fetching?.abort();
  fetching = controller;
  fetchedAt = performance.now();
  if (answer?.revision !== mine) busy(true);
  problem = "";
  try {
    const query = new URLSearchParams(chosen.query ?? { range: chosen.preset, node: chosen.node });
    const { draw } = JSON.parse(document.body.dataset.subscribe);
    if (draw) query.set("draw", draw);
    const got = await fetch(`${place.dataset.url}?${query}`, { headers: { Accept: "application/json" }, signal: controller.signal });
    const body = await got.json();
    if (mine !== revision) return;
    if (got.ok) {
      answer = { ...body, revision: mine, drawing: performance.now() };
    } else {
      problem = body.message;
    }
  } catch (error) {
    if (error.name === "AbortError" || mine !== revision) return;
    problem = "The history could not be loaded: the server does not answer.";
  }
  if (fetching === controller) fetching = null;
  busy(false);
  // After a failed refetch the old data stays; a range without any data is empty.
  if (problem && answer?.revision !== mine) answer = blank(mine);
  reword();
  changed();
}

function blank(mine) {
  const to = Math.floor(Date.now() / 1000);
  const from = to - (PRESET_S[chosen.preset] ?? PRESET_S[LIVE]);
  return {
    from, to, grows: false, step_s: 60, times: [], columns: {}, band: {}, graphs: {}, labels: {}, paused: [], weights: {},
    newest: null, revision: mine, drawing: performance.now(),
  };
}

// Adds a live second to the newest point. A point is the mean of the seconds it covers: weights has their number.
export function addToPast(second, points, isPaused) {
  if (!answer?.grows) return;
  const gap = second - (answer.newest ?? second);
  const dueMs = 1000 * Math.min(Math.max(answer.step_s, REFETCH_MIN_S), REFETCH_MAX_S);
  if (!fetching && (gap > MISSED_MAX_S || performance.now() - fetchedAt > dueMs)) {
    load();
    if (gap > MISSED_MAX_S) return;
  }
  if (answer.node) return; // the seconds are of all nodes
  if (answer.newest !== null && second <= answer.newest) return;
  const { times, columns, band, weights, step_s: step } = answer;
  const start = Math.floor(second / step) * step;
  while (times.length && times.at(-1) < start) {
    times.push(times.at(-1) + step);
    for (const name of Object.keys(columns)) {
      columns[name].push(null);
      weights[name]?.push(0);
      for (const limit of band[name] ?? []) limit.push(null);
    }
  }
  const last = times.length - 1;
  if (times[last] !== start) return;
  for (const [name, value] of Object.entries(points)) {
    if (!columns[name] || value === null) continue;
    const weight = weights[name]?.[last] ?? 0;
    columns[name][last] = ((columns[name][last] ?? 0) * weight + value) / (weight + 1);
    weights[name][last] = weight + 1;
    if (band[name]) {
      const [low, high] = band[name];
      low[last] = Math.min(low[last] ?? value, value);
      high[last] = Math.max(high[last] ?? value, value);
    }
  }
  if (isPaused) {
    const span = answer.paused.at(-1);
    if (span && span[1] >= start) span[1] = second + 1;
    else answer.paused.push([start, second + 1]);
  }
  if (answer.range && answer.newest !== null) answer.from += second + 1 - answer.to;
  answer.to = second + 1;
  answer.newest = second;
  answer.drawing = performance.now();
}

// Words.

function reword() {
  words(answer?.times.length ? describe() : "");
  if (problem) notice(problem, true);
  else if (answer) showNotice();
}

function showNotice() {
  const { notice: kind, recorded_from: since, recorded_until: until, from, to, grows } = answer;
  if (kind === "never") {
    notice("The pipeline has written no history yet: only the last 15 minutes have data. Its state is on the page Pipeline.");
  } else if (kind === "nothing") {
    notice(`Nothing was recorded in this range${since > from ? `: history begins at ${momentWords(since)}` : ""}.`);
  } else if (since > from + answer.step_s) {
    notice(`History begins at ${momentWords(since)}.`);
  } else if (grows && to - until > LAG_MAX_S) {
    notice(`The pipeline has written no history since ${momentWords(until)}.`);
  } else if (answer.partial?.length) {
    notice("Hatched: not every node was recorded there, so counts are the least that they can be.");
  } else if (answer.node && grows && to - lastTime() > REFETCH_MIN_S * 2) {
    notice(`One node's graphs end at ${momentWords(until)}: the pipeline writes them minutes later.`);
  } else {
    notice("");
  }
}

// Of the newest point that has a value.
function lastTime() {
  const last = Object.values(answer.columns).map((values) => values.findLastIndex((value) => value !== null));
  return answer.times[Math.max(...last)] ?? answer.from;
}

function describe() {
  const { step_s: step } = answer;
  if (step === 1) return `${rangeWords(answer)} · a point a second · live figures go on`;
  const size = step % 3600 === 0 ? [step / 3600, "hour"] : [step / 60, "minute"];
  const every = size[0] === 1 ? `${size[1] === "hour" ? "an" : "a"} ${size[1]}` : `every ${size[0]} ${size[1]}s`;
  return `${rangeWords(answer)} · a point ${every} · shaded: lowest to highest value`;
}

function words(text) {
  place.querySelector("[data-range-words]").textContent = text;
}

function notice(text, canRetry = false) {
  const line = place.querySelector("[data-range-notice]");
  line.hidden = !text;
  line.textContent = text;
  line.classList.toggle("tone-danger", canRetry);
  if (!canRetry) return;
  const retry = document.createElement("button");
  retry.type = "button";
  retry.className = "button button-small";
  retry.textContent = "Try again";
  retry.addEventListener("click", load);
  line.append(" ", retry);
}

function busy(isBusy) {
  document.querySelector("[data-graphs]").setAttribute("aria-busy", String(isBusy));
}

// From when to when; to the second where a point is a second.
export function rangeWords({ from, to, step_s: step }) {
  return spanWords(from, to, step === 1);
}
