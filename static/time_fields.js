// Fields for date and time. The server fills them in UTC and takes UTC; people see and type the zone of the page. A time
// that its clock skips is refused; of one that it shows twice the first is taken, and the field's note shows it.
import { fieldOf, offsetWords, secondsOfWall, zoneWords } from "./zones.js";

const meant = new WeakMap(); // field → its text and the second that this is, undefined for none

// Shows the time of a field in the zone of the page.
export function showField(field) {
  if (field.closest("[data-ranges]")) return; // static/history.js
  const isNew = !meant.has(field);
  if (isNew) field.addEventListener("input", () => read(field));
  // A browser that comes back to a page fills in the typed text.
  if (isNew && field.value !== field.defaultValue) return read(field);
  const second = isNew ? wallOf(field) : meant.get(field)[1];
  if (second !== undefined) field.value = textOf(second);
  meant.set(field, [field.value, second]);
  say(field);
}

// A form is sent, by a script or by the browser: with UTC.
document.addEventListener("formdata", ({ target, formData }) => {
  for (const field of target.querySelectorAll('input[type="datetime-local"][name]')) {
    if (!meant.has(field) || !formData.has(field.name)) continue;
    if (meant.get(field)[0] !== field.value) read(field);
    const second = meant.get(field)[1];
    if (second !== undefined) formData.set(field.name, new Date(second * 1000).toISOString().replace(/(:00)?\.000Z$/, "Z"));
  }
});

function read(field) {
  const wallS = wallOf(field);
  meant.set(field, [field.value, wallS === undefined ? undefined : secondsOfWall(wallS)[0]]);
  say(field);
}

// The text of the field, as if it were UTC.
function wallOf(field) {
  return field.value ? Date.parse(`${field.value}Z`) / 1000 : undefined;
}

function textOf(second) {
  return second % 60 ? `${fieldOf(second)}:${String(second % 60).padStart(2, "0")}` : fieldOf(second);
}

function say(field) {
  const wallS = wallOf(field);
  const moments = wallS === undefined ? [] : secondsOfWall(wallS);
  const isSkipped = wallS !== undefined && !moments.length;
  let words = "";
  if (isSkipped || moments.length > 1) {
    const place = zoneWords(wallS).replace(/ \(.*/, "");
    const clock = field.value.slice(11);
    const second = meant.get(field)[1];
    const which = second === moments[0] ? "first" : "second";
    words = isSkipped
      ? `On that day the clock in ${place} skips ${clock}. Choose another time.`
      : `On that day the clock in ${place} shows ${clock} twice: the ${which} is taken, ${offsetWords(second)}.`;
  }
  field.setCustomValidity(isSkipped ? words : "");
  const label = field.closest("label") ?? field;
  let note = label.nextElementSibling?.matches("[data-time-note]") ? label.nextElementSibling : null;
  if (!words && !note) return;
  if (!note) {
    note = document.createElement("span");
    note.className = "help";
    note.dataset.timeNote = "";
    note.setAttribute("role", "status");
    label.after(note);
  }
  if (note.textContent !== words) note.textContent = words;
}
