// The last fifteen minutes of the page's graphs, a value a second: fetched once, then a second with every update.
import { pathOf } from "./paths.js";

export const SECONDS = 900;
const REFETCH_AFTER_MS = 1_000;
const PENDING_MAX = 60;
let series = null; // {newest, columns: {name: [900 values]}, graphs, labels, paused}
let fetching = null;
let pending = []; // seconds that came while the columns were on their way
let changed = () => {};

// The seconds in memory, null before they are fetched.
export function liveSeconds() {
  return series;
}

// onChange is called whenever columns were fetched. Resolves when they have come, or could not be had.
export function startSeconds(onChange) {
  changed = onChange;
  return fetchSeconds();
}

export function addLiveSecond({ second, points, flags, silence }) {
  if (!series) {
    pending.push([second, points]);
    pending = pending.slice(-PENDING_MAX);
    fetchSeconds(); // they are on their way, or could not be had
    return;
  }
  // Another channel has grown among the deepest: its past has to be fetched.
  const isNew = Object.keys(points).some((name) => !(name in series.columns));
  if (isNew || second - series.newest > SECONDS) fetchSeconds();
  else append(second, points, flags.paused, Boolean(silence));
}

function append(second, points, isPaused, isPartial) {
  if (series.newest === null) series.newest = second - 1;
  if (second <= series.newest) return;
  const missed = Math.min(second - series.newest - 1, SECONDS);
  // This page was too slow for some updates; the server may have those seconds.
  if (missed) setTimeout(fetchSeconds, REFETCH_AFTER_MS);
  for (const [name, values] of Object.entries(series.columns)) {
    for (let index = 0; index < missed; index += 1) values.push(null);
    values.push(points[name] ?? null);
    values.splice(0, values.length - SECONDS);
  }
  if (isPaused) extend(series.paused, second);
  if (isPartial) extend((series.partial ??= []), second);
  series.newest = second;
}

function extend(spans, second) {
  const last = spans.at(-1);
  if (last && last[1] >= series.newest - 1) last[1] = second;
  else spans.push([second, second]);
}

function fetchSeconds() {
  fetching ??= fetchColumns().finally(() => {
    fetching = null;
  });
  return fetching;
}

async function fetchColumns() {
  try {
    const subscription = JSON.parse(document.body.dataset.subscribe);
    const names = [subscription.topic, subscription.channel].filter(Boolean).map((name) => `${encodeURIComponent(name)}/`);
    const query = subscription.draw ? `?${new URLSearchParams({ draw: subscription.draw })}` : "";
    const answer = await fetch(pathOf(`api/series/${names.join("")}${query}`), { headers: { Accept: "application/json" } });
    if (!answer.ok) return;
    const fetched = await answer.json();
    for (const [name, values] of Object.entries(fetched.columns)) {
      if (!values.length) fetched.columns[name] = new Array(SECONDS).fill(null);
    }
    series = fetched;
    for (const [second, points] of pending) if (second > series.newest) append(second, points, false, false);
    pending = [];
    changed();
  } catch {
    // The socket's next update tries again.
  }
}

// The seconds of [firstS, endS) as a range of the past is drawn; null where they are too old, or missing.
export function secondsOf(firstS, endS) {
  const oldest = series?.newest ? series.newest - SECONDS + 1 : Infinity;
  if (firstS < oldest) return null;
  const end = Math.min(endS, series.newest + 1);
  const columns = Object.fromEntries(
    Object.entries(series.columns).map(([name, values]) => [name, values.slice(firstS - oldest, end - oldest)]),
  );
  if (!Object.values(columns).some((values) => values.some((value) => value !== null))) return null;
  return {
    from: firstS,
    to: end,
    grows: false,
    step_s: 1,
    times: Array.from({ length: end - firstS }, (_, index) => firstS + index),
    columns,
    band: {},
    graphs: series.graphs,
    labels: series.labels,
    paused: series.paused.filter(([first, last]) => last >= firstS && first < end).map((span) => [...span]),
    partial: (series.partial ?? []).filter(([first, last]) => last >= firstS && first < end),
    weights: {},
    newest: null,
  };
}

let timesNewest = null;
let times = [];
// All seconds in memory.
export function timesOfSeconds() {
  if (timesNewest !== series.newest) {
    timesNewest = series.newest;
    times = Array.from({ length: SECONDS }, (_, index) => series.newest - SECONDS + 1 + index);
  }
  return times;
}

// The index of a column's first value; SECONDS without any.
export function firstKnown(column) {
  const index = series.columns[column].findIndex((value) => value !== null);
  return index < 0 ? SECONDS : index;
}
