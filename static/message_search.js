// A search while it runs: its results are fetched again until it has ended, and written only when they have changed.
const EVERY_MS = 500;
const place = document.querySelector("[data-search]");
const isRunning = () => place.querySelector('[data-state="running"]') !== null;

async function again() {
  try {
    const answer = await fetch(place.dataset.search, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
    const text = await answer.text();
    // The search is gone, or the session has ended: the page itself shows that.
    if (!answer.ok || answer.redirected) return location.reload();
    // A fragment is our own server's, and the Content-Security-Policy runs nothing inline.
    if (place.innerHTML !== text) place.innerHTML = text;
  } catch {
    // The next try may be answered.
  }
  if (isRunning()) setTimeout(again, EVERY_MS);
  else document.querySelector("[data-cancel]").hidden = true;
}

if (isRunning()) setTimeout(again, EVERY_MS);
