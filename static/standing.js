// Whether the state of an open question, or of a page without a live socket, is current: another operator may have
// deleted or changed it, and the session may be over. If it is gone, the question shows that, and its button is disabled.
// If it changed, the question shows the change, and confirming it brings the question anew; a page has a link to reload.
import { isServerGone } from "./connection.js";
import { logInPath } from "./paths.js";

const NOT_LOGGED_IN = 401;
const ASK_EVERY_MS = 2_000;
const SAID_MAX = 3;

const connection = document.getElementById("connection"); // has a sentence while the server does not answer

setInterval(askAll, ASK_EVERY_MS);

// The live page calls it, too, when its own topic or channel is gone.
export function askAll() {
  if (document.hidden || connection?.textContent) return;
  for (const form of document.querySelectorAll('dialog[open] form[method="post"], .question form[method="post"]')) {
    const mark = form.querySelector('input[name="shown"]');
    if (mark) check(form, form.action, mark.value);
  }
  const { shown } = document.body.dataset;
  if (shown && !document.querySelector("dialog[open]")) check(document.body, location.href, shown);
}

// place: the form or the page. A change of a page, or the end of the session, is shown once.
async function check(place, address, shown) {
  if (place.dataset.asking || place.getAttribute("aria-busy")) return;
  place.dataset.asking = "1";
  let isSaid = false;
  try {
    const url = new URL(address);
    url.search = new URLSearchParams({ still: "1", shown });
    const answer = await fetch(url, { headers: { "X-Fragment": "1" }, credentials: "same-origin", redirect: "error" });
    const text = await answer.text();
    const found = answer.headers.get("X-Standing");
    // An act that is confirmed meanwhile has its own answer.
    if (!place.isConnected || place.getAttribute("aria-busy")) return;
    if (answer.status === NOT_LOGGED_IN) isSaid = sayOver(place);
    else if (found && place === document.body) isSaid = sayOnPage(text, location.href, "Reload the page");
    else if (found === "several") saySeveral(place, JSON.parse(text));
    else if (found) say(place, text, found === "gone");
  } catch {
    isServerGone(); // then the page shows that
  } finally {
    if (!isSaid) delete place.dataset.asking;
  }
}

function sayOver(place) {
  if (place === document.body) return sayOnPage("Your session is over.", logInPath(), "Log in again");
  // Where the form was sent, its answer shows that.
  if (!place.querySelector(".errorlist")) {
    say(place, "Your session is over. ", false);
    place.querySelector(".standing").append(linkOf(logInPath(), "Log in, and go on with this form"));
  }
  return true;
}

// The live page calls it, too.
export function sayOnPage(sentence, href, label) {
  const line = document.createElement("li");
  line.className = "warning";
  line.append(sentence, " ", linkOf(href, label));
  document.querySelector("#messages ul").append(line);
  return true;
}

function linkOf(href, label) {
  const link = document.createElement("a");
  link.href = href;
  link.textContent = label;
  return link;
}

// Of a question about several. acts: ORDERS or ORDERS/BILLING → a sentence on the last act there since it was shown.
function saySeveral(form, acts) {
  const names = form.elements.on.value.split("\n").map((line) => line.trim().split(" ")[0]);
  const done = new Map(Object.entries(acts));
  const selected = new Set(names);
  const about = new Set(names.flatMap((name) => [name, name.split("/")[0]]).concat(""));
  // An act on a channel concerns a topic that is selected, and the other way round.
  const found = [...done].filter(([place]) => about.has(place) || selected.has(place.split("/")[0]));
  if (!found.length) return;
  const sentences = found.slice(-SAID_MAX).map(([, sentence]) => sentence);
  const more = found.length - sentences.length;
  say(form, ["Changed after this was shown.", ...sentences, ...(more ? [`${more} more acts.`] : []), "Changed ones will be left as they are."].join(" "), false);
}

function say(form, text, isGone) {
  const existing = form.querySelector(".standing");
  const line = existing ?? document.createElement("p");
  if (line.textContent !== text) line.textContent = text;
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = isGone;
  if (existing) return;
  line.className = "errorlist standing";
  line.setAttribute("role", "alert");
  form.querySelector("h1, h2").after(line);
}
