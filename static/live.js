// Keeps a page live: one socket, one update a second, and the age of its figures.
import { figuresAreLive, figuresAreOld } from "./connection.js";
import { logInPath, pathOf } from "./paths.js";
import { followNodes } from "./node_acts.js";
import { applyUpdate, isGone } from "./page_update.js";
import { askAll, sayOnPage } from "./standing.js";

const RETRY_FIRST_MS = 250;
const RETRY_MAX_MS = 15_000;
const STALE_AFTER_MS = 2_500; // two updates missed and a little
const GRAPHS_AFTER_MS = 5_000; // where no update comes before
const CLOSED_LOG_IN = 4401;
const CLOSED_FORBIDDEN = 4403;

const subscription = document.body.dataset.subscribe;
const freshness = document.getElementById("freshness");
// In a narrow window the green dot stands for the word (header.css).
const liveWord = document.createElement("span");
liveWord.className = "live-word";
const age = document.createTextNode("");
let socket = null;
let graphs = null; // their script, once it is there
let graphsLoading = null;
let retryMs = RETRY_FIRST_MS;
let retryTimer = 0;
let ended = ""; // why the page does not connect again
let isDeleted = false; // its topic or channel is gone; its figures are the last ones
let receivedAt = 0; // by performance.now()
let nodes = []; // of a cluster: "11 of 12 nodes", and the age of the oldest figures
let shownSince = performance.now(); // hidden pages get no updates
const renderedAt = Number(freshness?.dataset.takenAt ?? 0); // when the page's own figures were taken, by the server's clock
const HELD_BACK_MS = 10_000;
// How old the figures were when they came: by the server's clock alone, so that a wrong clock here does not matter.
let ageWhenReceived = Number(freshness?.dataset.age ?? NaN);

if (subscription) {
  receivedAt = performance.now();
  connect();
  setInterval(showFreshness, 200);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else {
      shownSince = performance.now();
      connect();
    }
  });
  addEventListener("online", connect);
  document.addEventListener("serveranswers", connect);
  addEventListener("pageshow", connect);
  setTimeout(loadGraphs, GRAPHS_AFTER_MS);
}

// The script of the graphs is larger than all others: on a slow line the figures are live before it is fetched.
function loadGraphs() {
  graphsLoading ??= import("./graphs.js").then(
    (module) => {
      graphs = module;
      graphs.startGraphs();
    },
    () => {
      graphsLoading = null; // the next update tries again
    },
  );
}

function connect() {
  if (socket || ended || document.hidden) return;
  clearTimeout(retryTimer);
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const opened = new WebSocket(`${scheme}://${location.host}${pathOf("ws/live/")}`);
  socket = opened;
  opened.addEventListener("open", () => opened.send(`{"subscribe":${subscription}}`));
  opened.addEventListener("message", (event) => {
    const update = JSON.parse(event.data);
    opened.send(`{"ack":${update.seq}}`);
    retryMs = RETRY_FIRST_MS;
    // The page was rendered from the moment itself, an update may come from a second or more before: it would take back
    // the result of an act just done. Held back on a new page only: a server's clock may be set back.
    if (update.t < renderedAt && performance.now() < HELD_BACK_MS) return;
    if (isGone(update) !== isDeleted) {
      isDeleted = !isDeleted;
      if (isDeleted) askAll();
    }
    nodes = update.nodes ?? [];
    if (!isDeleted) {
      receivedAt = performance.now();
      ageWhenReceived = 0;
    }
    // One paint for all changes of a second.
    requestAnimationFrame(() => {
      applyUpdate(update);
      followNodes();
      graphs?.applyPoints(update);
      showFreshness();
      loadGraphs();
    });
  });
  opened.addEventListener("close", (event) => {
    if (socket !== opened) return;
    socket = null;
    if (event.code === CLOSED_LOG_IN) {
      ended = "logged out";
      sayOnPage("Your session is over: figures are not updated.", logInPath(), "Log in again");
    }
    if (event.code === CLOSED_FORBIDDEN) {
      // The user has another role by now: the page reloads with the buttons of that role.
      ended = "not allowed";
      location.reload();
    }
    showFreshness();
    if (ended || document.hidden) return;
    retryTimer = setTimeout(connect, retryMs * (0.5 + Math.random()));
    retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
  });
}

function disconnect() {
  clearTimeout(retryTimer);
  const closing = socket;
  socket = null;
  closing?.close(1000);
}

function showFreshness() {
  if (!freshness) return;
  const ageMs = ageWhenReceived + performance.now() - receivedAt;
  const isLive = !isDeleted && socket?.readyState === WebSocket.OPEN && ageMs < STALE_AFTER_MS;
  let text;
  if (isLive) text = nodes.length ? nodes.filter(Boolean).map(unbroken).join(" · ") : `${(ageMs / 1000).toFixed(1)} s ago`;
  else if (isDeleted) text = `deleted · ${words(ageMs)} old`;
  else if (ended) text = `${ended} · ${words(ageMs)} old`;
  else if (Number.isNaN(ageMs)) text = "no figures yet";
  else if (ageMs < STALE_AFTER_MS) text = "connecting";
  else text = `stale · ${words(ageMs)} old`;
  const word = isLive ? "live · " : "";
  if (!liveWord.isConnected) {
    const line = document.createElement("span");
    line.append(liveWord, age);
    freshness.replaceChildren(line);
  }
  if (liveWord.textContent !== word) liveWord.textContent = word;
  if (age.data !== text) age.data = text;
  const state = isLive ? "live" : ageMs < STALE_AFTER_MS && !ended && !isDeleted ? "still" : "stale";
  if (freshness.dataset.state !== state) {
    freshness.dataset.state = state;
    document.body.classList.toggle("is-stale", state === "stale");
  }
  freshness.toggleAttribute("data-partial", / of /.test(nodes[0] ?? ""));
  const takenAt = Date.now() - ageMs;
  if (isLive) figuresAreLive(takenAt);
  else if (state === "stale" && !ended && !isDeleted && !document.hidden && performance.now() - shownSince > STALE_AFTER_MS) {
    figuresAreOld(takenAt);
  }
}

// On a phone the two parts take a line each.
function unbroken(text) {
  return text.replaceAll(" ", "\u00a0");
}

function words(ms) {
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${String(seconds % 60).padStart(2, "0")}s`;
  return `${Math.floor(seconds / 3600)}h`;
}
