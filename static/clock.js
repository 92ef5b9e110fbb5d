// The clock of the page. The server writes all times in UTC: `2026-03-01 14:30:05 UTC` in sentences and titles, and as
// <time datetime=… data-column> in a column, whose head ends with (UTC). They are shown in the zone that data-clock on
// <html> names: the browser's, or UTC. It is the user's choice, or that of `?tz=` in the link; the menu changes it without
// a reload. Times in later updates and dialogs are converted before they are painted.
import { showField } from "./time_fields.js";
import { clockWords, fieldOf, offsetWords, zoneWords } from "./zones.js";

// A moment with its offset: it can be read back from the text in any zone.
const MOMENT = /(\d{4}-\d\d-\d\d) (\d\d:\d\d)((?::\d\d(?:\.\d+)?)?) UTC(?:([+−])(\d\d?)(?::(\d\d))?)?(?![\w+−-])/g;
const HEADS = "th, label, legend, dt";
// Others' text, such as bodies of messages, stays as it is.
const VERBATIM = "[data-verbatim], .json, .preview, .excerpt, pre, code, textarea, script, style, svg";

const page = document.documentElement;
const places = new Set(["UTC"]); // zones that heads of this page name

// A text with its moments in the zone of the page.
export function inZone(text) {
  return text.includes(" UTC") ? text.replace(MOMENT, (...found) => momentOf(found).text) : text;
}

// Shows all times in an element, or in a fragment that is about to be put into the page, in the zone of the page.
export function showTimes(root) {
  for (const element of matching(root, "time[data-column]")) {
    const second = Date.parse(element.dateTime) / 1000;
    setText(element, `${fieldOf(second).slice(0, 10)} ${clockWords(second, true)}`);
  }
  for (const element of matching(root, "[title], [data-label]")) {
    if (element.closest(VERBATIM)) continue;
    const { title } = element;
    const label = element.dataset.label ?? "";
    if (title !== inZone(title)) element.title = inZone(title);
    if (label !== headInZone(label)) element.dataset.label = headInZone(label);
  }
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walker.nextNode()) texts.push(walker.currentNode);
  for (const text of texts) {
    if (text.data.includes(" UTC")) showMoments(text);
    else if (text.data.includes(")") && text.parentElement?.closest(HEADS)) {
      const words = headInZone(text.data);
      if (words !== text.data) text.data = words;
    }
  }
  for (const field of matching(root, 'input[type="datetime-local"]')) showField(field);
}

// Each moment of a text becomes a <time>.
function showMoments(text) {
  const place = text.parentElement;
  if (place?.closest(VERBATIM)) return;
  if (place?.closest("time")) {
    setText(place, inZone(place.textContent));
    return;
  }
  const parts = [];
  let end = 0;
  for (const found of text.data.matchAll(MOMENT)) {
    const moment = momentOf(found);
    const element = document.createElement("time");
    element.dateTime = moment.dateTime;
    element.textContent = moment.text;
    parts.push(text.data.slice(end, found.index), element);
    end = found.index + found[0].length;
  }
  if (end) text.replaceWith(...[...parts, text.data.slice(end)].filter((part) => part !== ""));
}

function momentOf([text, date, clock, seconds, sign, hours, minutes]) {
  const offsetS = sign ? (sign === "+" ? 60 : -60) * (Number(hours) * 60 + Number(minutes ?? 0)) : 0;
  const second = Date.parse(`${date}T${clock}Z`) / 1000 - offsetS;
  if (Number.isNaN(second)) return { text, dateTime: "" };
  const dateTime = `${new Date(second * 1000).toISOString().slice(0, 16)}${seconds}Z`;
  return { text: `${fieldOf(second).replace("T", " ")}${seconds} ${offsetWords(second)}`, dateTime };
}

// When (UTC) ↔ When (Berlin): the place that the browser's zone is named after, or its offset now.
function headInZone(words) {
  const place = zoneWords(Date.now() / 1000).replace(/ \(.*/, "");
  places.add(place);
  return words.replace(/\(([^()]+)\)(\s*)$/, (text, named, space) => (places.has(named) ? `(${place})${space}` : text));
}

function matching(root, selector) {
  return [...(root.matches?.(selector) ? [root] : []), ...root.querySelectorAll(selector)];
}

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function watch() {
  showTimes(document.body);
  new MutationObserver((changes) => {
    for (const { addedNodes, target } of changes) {
      for (const node of addedNodes) {
        if (node instanceof HTMLElement) showTimes(node);
        else if (node instanceof Text && node.data.includes(" UTC") && node.parentElement === target) showMoments(node);
      }
    }
  }).observe(document.body, { childList: true, subtree: true });
}

function startMenu() {
  const form = document.querySelector("form[data-clock-form]");
  if (!form) return;
  form.hidden = false;
  form.querySelector("[data-own-zone]").textContent = Intl.DateTimeFormat().resolvedOptions().timeZone;
  form.elements.clock.value = page.dataset.clock;
  form.addEventListener("change", () => {
    page.dataset.clock = form.elements.clock.value;
    showTimes(document.body);
    const link = new URL(location.href);
    if (link.searchParams.has("tz")) {
      link.searchParams.delete("tz");
      history.replaceState(history.state, "", link);
    }
    // Where the server can't store the choice, it holds for this page.
    fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)) }).catch(() => {});
  });
}

watch();
startMenu();
