// The sentence across the page while its figures are old: since when, whether the server answers at all, and that
// nothing can be done where it does not. Acts are refused with that sentence, on the page and in an open dialog.
import { dayWords, offsetWords, timeWords } from "./zones.js";

const ASK_EVERY_MS = 5_000;
const ASK_TIMEOUT_MS = 4_000;
const ASK_AGAIN_MS = 1_500; // the first answer may be followed by figures
const ACTS = 'a[data-dialog], form[method="post"] button:not([type="button"])';

const place = document.getElementById("connection");
const icon = document.querySelector("link[rel=icon]"); // the smallest file that the server sends without a log-in
let figuresAt = NaN; // Date.now() of the newest figures
let isOld = false;
let isGone = false; // the server does not answer
let answers = 0; // one after the other
let asking = null;
let timer = 0;

// Both are to be called again and again while it is so. takenAt: when the figures were taken, by this machine's clock.
export function figuresAreLive(takenAt) {
  figuresAt = takenAt;
  isOld = false;
  clearTimeout(timer);
  timer = 0;
  if (!place.textContent) return;
  isGone = false;
  show();
  document.getElementById("live-summary").textContent = "The figures are live again.";
}

export function figuresAreOld(takenAt) {
  figuresAt = takenAt;
  if (isGone && !isOld) {
    isOld = true;
    show();
  }
  isOld = true;
  if (!timer && !asking) askServer();
}

// For a request that got no answer: true when the server does not answer at all; then the page shows that.
export async function isServerGone() {
  await askServer();
  return isGone;
}

function askServer() {
  clearTimeout(timer);
  timer = 0;
  asking ??= probe().finally(() => {
    asking = null;
  });
  return asking;
}

async function probe() {
  let isAnswered = true;
  try {
    await fetch(icon.href, { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(ASK_TIMEOUT_MS) });
  } catch {
    isAnswered = false;
  }
  answers = isAnswered ? answers + 1 : 0;
  const isFirst = answers === 1;
  if (isFirst) document.dispatchEvent(new Event("serveranswers"));
  if (!isFirst || !isOld) {
    isGone = !isAnswered;
    show();
  }
  if (isOld || isGone) timer = setTimeout(askServer, isFirst ? ASK_AGAIN_MS : ASK_EVERY_MS);
}

function show() {
  const text = isGone || isOld ? sentence() : "";
  if (place.textContent !== text) place.textContent = text;
  if (isGone) sayInDialog();
  else document.querySelector("dialog .connection")?.remove();
  for (const act of document.querySelectorAll(ACTS)) {
    if (isGone) act.setAttribute("aria-disabled", "true");
    else act.removeAttribute("aria-disabled");
  }
}

function sentence() {
  const since = Number.isNaN(figuresAt) ? "" : moment(figuresAt);
  if (!isGone) return `The live figures have stopped: all figures are from ${since}. The server answers, acts can be done.`;
  const old = since ? `All figures are from ${since}, and no` : "No";
  return `The server does not answer. ${old} act can be done until it answers again.`;
}

// 10:50:05 UTC+1, with the day where it is another one.
function moment(ms) {
  const second = Math.floor(ms / 1000);
  const clock = `${timeWords(second, true)} ${offsetWords(second)}`;
  return dayWords(second) === dayWords(Date.now() / 1000) ? clock : `${dayWords(second)} ${clock}`;
}

// A dialog covers the page, also for screen readers.
function sayInDialog() {
  const form = document.querySelector("dialog[open] form");
  if (!form) return;
  const line = form.querySelector(".connection") ?? document.createElement("p");
  line.className = "connection";
  line.setAttribute("role", "alert");
  line.textContent = sentence();
  form.prepend(line);
}

function refuse(event) {
  event.preventDefault();
  event.stopPropagation();
  if (document.querySelector("dialog[open]")) {
    sayInDialog();
    return;
  }
  // Shown again, so that screen readers announce it.
  place.textContent = "";
  requestAnimationFrame(show);
}

document.addEventListener(
  "click",
  (event) => {
    if (isGone && event.target.closest?.("a[data-dialog]")) refuse(event);
  },
  true,
);
document.addEventListener(
  "submit",
  (event) => {
    if (isGone && event.target.method === "post") refuse(event);
  },
  true,
);
