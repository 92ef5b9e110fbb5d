// Where the focus is after an act, whose answer is a new page: at its Undo, else at the row or the button that began it, else
// at the sentence that says what was done.
const KEY = "penstock-acted";
const KEPT_MS = 30_000; // an act that took longer belongs to no page that comes then

// Before the page is left. opener: what was pressed.
export function rememberOpener(opener) {
  const row = opener.closest("tr[data-key]");
  const acted = { at: Date.now(), table: row?.closest("[data-table]")?.dataset.table, key: row?.dataset.key, form: idOf(opener) };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(acted));
  } catch {
    // Storage may be forbidden: then the focus goes to the sentence.
  }
}

// On the same page: to what was pressed, or to what stands in its place by now.
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
const sentence = document.querySelector("#messages li");
if (acted && sentence && Date.now() - acted.at < KEPT_MS) {
  focusFirst([
    sentence.querySelector("a"),
    acted.key && rowActOf(acted.table, acted.key),
    acted.form && document.querySelector(".actions a.button:not([hidden])"),
    acted.form && document.querySelector(".acts-button"),
    sentence,
  ]);
}
