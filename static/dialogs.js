// Acts open as dialogs: the link's confirmation page is fetched as a fragment. Its form then posts as any form does,
// so whatever goes wrong here, following the link does the same on a page of its own.
import { isServerGone } from "./connection.js";

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  let html;
  try {
    const answer = await fetch(link.href, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
    if (!answer.ok || answer.redirected) throw new Error(`status ${answer.status}`);
    html = await answer.text();
  } catch (error) {
    // Without an answer the page stays, and says so.
    if (error instanceof TypeError && (await isServerGone())) return;
    location.assign(link.href);
    return;
  }
  open(html, link);
});

function open(html, opener) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  // The fragment is our own server's, and the Content-Security-Policy runs nothing inline.
  dialog.innerHTML = html;
  const title = dialog.querySelector("h1, h2");
  if (title) {
    title.id ||= "dialog-title";
    dialog.setAttribute("aria-labelledby", title.id);
  }
  dialog.addEventListener("click", (event) => {
    const cancel = event.target.closest("[data-close]");
    if (event.target !== dialog && !cancel) return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    opener.focus();
  });
  dialog.addEventListener("submit", (event) => {
    // A second click must not post the act twice.
    if (dialog.dataset.sent) event.preventDefault();
    dialog.dataset.sent = "1";
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector("[autofocus]")?.focus();
}
