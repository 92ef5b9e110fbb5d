// The clock of the page: times are shown in the browser's zone or in UTC. The server renders the user's choice, or that of
// `?tz=` in the link, as data-clock on <html>; the menu changes it without a reload.
const page = document.documentElement;

export function isUtc() {
  return page.dataset.clock === "utc";
}

// "UTC", or the browser's zone: Europe/Berlin.
export function zoneName() {
  return isUtc() ? "UTC" : ownZone();
}

// Minutes that the shown clock is ahead of UTC at a moment in Unix milliseconds.
export function offsetMin(ms) {
  return isUtc() ? 0 : -new Date(ms).getTimezoneOffset();
}

// Called after each change of the choice, and not before the first.
export function onClockChange(listener) {
  addEventListener("clockchange", listener);
}

function ownZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

function choose(clock) {
  page.dataset.clock = clock;
  dispatchEvent(new Event("clockchange"));
}

const form = document.querySelector("form[data-clock-form]");
if (form) {
  form.hidden = false;
  form.querySelector("[data-own-zone]").textContent = ownZone();
  form.elements.clock.value = page.dataset.clock;
  form.addEventListener("change", () => {
    const fields = new URLSearchParams(new FormData(form));
    choose(form.elements.clock.value);
    // Where the server does not keep the choice, it holds for this page.
    fetch(form.action, { method: "POST", body: fields }).catch(() => {});
  });
}
