// Where the focus is after an act, whose answer is a new page: at its Undo, else at the row or the button that began it, else
// at the sentence about the result.
const KEY = "penstock-acted";
const KEPT_MS = 30_000; // an act that took longer belongs to no page that comes then

// Before the page is left. opener: the pressed element.
export function rememberOpener(opener) {
  const row = opener.closest("tr[data-key]");
  const message = opener.closest("tbody[data-message]");
  const acted = {
    at: Date.now(),
    table: row?.closest("[data-table]")?.dataset.table,
    key: row?.dataset.key,
    form: idOf(opener),
    messages: message && [message, message.nextElementSibling].map((one) => one?.dataset.message),
  };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(acted));
  } catch {
    // Storage may be forbidden: then the focus goes to the sentence.
  }
}

// A form of the page itself, without a dialog: the acts on messages, and a question that has a page of its own.
document.addEventListener("submit", ({ target: form, submitter, defaultPrevented }) => {
  if (form.method !== "post" || defaultPrevented || !submitter || "download" in submitter.dataset) return;
  rememberOpener(submitter);
});

// On the same page: to the pressed element, or to the one in its place by now.
export function focusAfter(opener) {
  const row = opener.closest("tr[data-key]");
  const places = [
    opener,
    row && rowActOf(row.closest("[data-table]")?.dataset.table, row.dataset.key),
    document.querySelector(".acts-button"), // in a narrow window the acts are behind it
    opener.closest(".panel")?.querySelector("[data-select-all]"), // the bar of acts went with the selection
    document.querySelector("h1"),
  ];
  focusFirst(places);
}

function idOf(opener) {
  return opener.closest(".actions") ? "actions" : "";
}

function rowActOf(table, key) {
  const row = document.querySelector(`[data-table="${CSS.escape(table ?? "")}"] tr[data-key="${CSS.escape(key ?? "")}"]`);
  return row?.querySelector(".action-cell a") ?? row?.querySelector("a");
}

// The row of a message, which is folded: its box where it can be selected.
function boxOf(message) {
  return document.querySelector(`tbody[data-message="${CSS.escape(message ?? "")}"] input[name="id"]`);
}

function focusFirst(places) {
  const place = places.find((one) => one && one.checkVisibility());
  if (!place) return;
  if (!place.matches("a[href], button, input, summary")) place.tabIndex = -1;
  place.focus();
}

let acted = null;
try {
  acted = JSON.parse(sessionStorage.getItem(KEY));
  sessionStorage.removeItem(KEY);
} catch {
  // As above.
}
const sentence = document.querySelector("#messages li, .act-results");
if (acted && sentence && Date.now() - acted.at < KEPT_MS) {
  focusFirst([
    sentence.querySelector("a"),
    acted.key && rowActOf(acted.table, acted.key),
    ...(acted.messages ?? []).map(boxOf), // the message itself, or the one in its place
    acted.form && document.querySelector(".actions a.button:not([hidden])"),
    acted.form && document.querySelector(".acts-button"),
    sentence,
  ]);
}
