// A list of messages shows its age. Refresh fetches it anew in its place: selected and unfolded rows stay so.
// It does not refresh by itself: each look at bodies is audited, and rows must not move under a pointer.
const OLD_AFTER_S = 30;
let readAt = performance.now();

// then: called after new rows are in the page.
export function startRefresh(then) {
  setInterval(showAge, 1_000);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-refresh]");
    if (!link || event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (!document.querySelector(".message-table")) return; // an empty list is loaded as a page
    event.preventDefault();
    refresh(link, then);
  });
}

function showAge() {
  const place = document.querySelector("[data-list-age]");
  if (!place) return;
  const seconds = Math.floor((performance.now() - readAt) / 1_000);
  const text = seconds < 5 ? "" : ` · ${seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min`} old`;
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("tone-warning", seconds >= OLD_AFTER_S);
}

async function refresh(link, then) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  let wanted;
  try {
    const answer = await fetch(link.href, { credentials: "same-origin" });
    if (!answer.ok || answer.redirected) return location.assign(link.href);
    wanted = new DOMParser().parseFromString(await answer.text(), "text/html");
  } catch {
    say("The server did not answer: the list is as it was.");
    return;
  } finally {
    delete link.dataset.busy;
  }
  const table = document.querySelector(".message-table");
  const fresh = wanted.querySelector(".message-table");
  // No row is left, or none was there: that is another page.
  if (!table || !fresh) return location.assign(link.href);
  const sentence = keep(table, fresh);
  table.replaceWith(fresh);
  for (const selector of [".state-tabs", ".messages > .pager", ".list-notes"]) {
    const old = document.querySelector(selector);
    const next = wanted.querySelector(selector);
    if (old && next) old.replaceWith(next);
  }
  readAt = performance.now();
  showAge();
  then();
  say(sentence);
  document.querySelector("a[data-refresh]")?.focus({ preventScroll: true });
}

// Select and unfold the new rows as the old ones are; return a sentence about new and gone messages.
function keep(table, fresh) {
  const rows = new Map([...table.tBodies].map((body) => [body.dataset.message, body]));
  let came = 0;
  for (const body of fresh.tBodies) {
    const old = rows.get(body.dataset.message);
    if (!old) {
      came += 1;
      continue;
    }
    rows.delete(body.dataset.message);
    const box = body.querySelector('input[name="id"]');
    if (box) box.checked = Boolean(old.querySelector('input[name="id"]')?.checked);
    const unfolded = body.querySelector("details.unfold");
    if (unfolded) unfolded.open = Boolean(old.querySelector("details.unfold")?.open);
  }
  if (!came && !rows.size) return "Refreshed: the same messages.";
  return `Refreshed: ${came} came, ${rows.size} left.`;
}

function say(sentence) {
  const place = document.querySelector("[data-refreshed]");
  if (place) place.textContent = sentence;
}
