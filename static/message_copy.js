// Copies bodies as they are shown, and the selected messages as their file has them: a JSON object a line.
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy], [data-copy-selected]");
  if (!button) return;
  const text = "copy" in button.dataset ? shownBody(button) : selectedLines(button.form, button);
  const label = button.textContent;
  try {
    await put(text);
    button.textContent = "Copied";
  } catch (problem) {
    button.textContent = problem instanceof Refused ? problem.message : "The browser refused the clipboard";
  }
  setTimeout(() => (button.textContent = label), 4_000);
});

class Refused extends Error {}

// A browser without a clipboard, as on a page without HTTPS, has no buttons for it.
export function showCopyButtons() {
  for (const button of document.querySelectorAll("[data-copy], [data-copy-selected]")) button.hidden = !navigator.clipboard;
}

// Where the body is text, which a clipboard can hold.
async function shownBody(button) {
  return button.closest(".unfolded").querySelector("pre.body, .json").innerText;
}

async function selectedLines(form, button) {
  const fields = new URLSearchParams(new FormData(form));
  if (!fields.has("id")) throw new Refused("Select messages first");
  const answer = await fetch(button.dataset.copySelected, { method: "POST", body: fields, credentials: "same-origin" });
  if (!answer.ok || answer.redirected) throw new Refused("The server refused the bodies");
  return answer.text();
}

// Request the clipboard at once, while the click counts; the text may come later.
async function put(text) {
  if (!window.ClipboardItem) return navigator.clipboard.writeText(await text);
  let problem = null;
  const blob = text.then(
    (given) => new Blob([given], { type: "text/plain" }),
    (error) => {
      problem = error;
      throw error;
    },
  );
  try {
    await navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
  } catch (error) {
    throw problem ?? error;
  }
}
