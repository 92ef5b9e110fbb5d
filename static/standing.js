// While a dialog is open, its question is asked whether it still stands: what it is about may be deleted or changed by
// another operator. What is gone is said in the dialog, and its button is disabled; what changed is said, and confirming
// it brings the question anew.
const ASK_EVERY_MS = 2_000;

const connection = document.getElementById("connection"); // has a sentence while the server does not answer

setInterval(askAll, ASK_EVERY_MS);

// The live page calls it, too, when its own topic or channel is gone.
export function askAll() {
  if (document.hidden || connection?.textContent) return;
  for (const form of document.querySelectorAll('dialog[open] form[method="post"]')) ask(form);
}

async function ask(form) {
  const mark = form.querySelector('input[name="shown"]');
  if (!mark || form.dataset.asking || form.getAttribute("aria-busy")) return;
  form.dataset.asking = "1";
  try {
    const url = `${form.action}?${new URLSearchParams({ still: "1", shown: mark.value })}`;
    const answer = await fetch(url, { headers: { "X-Fragment": "1" }, credentials: "same-origin", redirect: "error" });
    const text = await answer.text();
    const found = answer.headers.get("X-Standing");
    // Of an act that is confirmed meanwhile, its own answer says what became of it.
    if (found && form.isConnected && !form.getAttribute("aria-busy")) say(form, text, found === "gone");
  } catch {
    // connection.js says it where the server does not answer.
  } finally {
    delete form.dataset.asking;
  }
}

function say(form, text, isGone) {
  const known = form.querySelector(".standing");
  const line = known ?? document.createElement("p");
  if (line.textContent !== text) line.textContent = text;
  for (const button of form.querySelectorAll('button[type="submit"]')) button.disabled = isGone;
  if (known) return;
  line.className = "errorlist standing";
  line.setAttribute("role", "alert");
  form.querySelector("h1, h2").after(line);
}
