// Acts open as dialogs: the link's confirmation page is fetched as a fragment, and its form is sent from here. The dialog
// shows complaints, with the input still there. Without scripts the link and the form do the
// same on pages of their own.
import { isServerGone } from "./connection.js";
import { focusAfter, rememberOpener } from "./focus.js";
import { logInPath, pathOf } from "./paths.js";

const NOT_LOGGED_IN = 401;

document.addEventListener("click", async (event) => {
  const link = event.target.closest("a[data-dialog]");
  if (!link || event.defaultPrevented || event.button !== 0) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  const url = new URL(link.href);
  // An act of a row leads back to its list.
  if (link.closest("[data-table] tr")) url.searchParams.set("next", location.pathname + location.search);
  await askInDialog(url.href, link);
});

// opener: the clicked element; it gets the focus back. body: of a question that is too long for a link.
export async function askInDialog(url, opener, body) {
  const answer = await answerOf(url, body && { method: "POST", body });
  if (answer.form) open(answer.form, opener);
  else if (answer.isLost) {
    // Where the server does not answer at all, the page shows that.
    if (!(await isServerGone())) open(refusal("The server did not answer. Nothing was done."), opener);
  } else if (answer.sentence && answer.status !== NOT_LOGGED_IN) open(refusal(answer.sentence), opener);
  else if (body && answer.status !== NOT_LOGGED_IN) open(refusal(`The server answered with status ${answer.status}.`), opener);
  else location.assign(answer.status === NOT_LOGGED_IN ? logInPath() : url); // a log-in leads back to this page
}

// The server's answer: a form for the dialog, a sentence why there is none, or the next page.
async function answerOf(url, options = {}) {
  let answer;
  let text;
  try {
    answer = await fetch(url, { ...options, headers: { "X-Fragment": "1" }, credentials: "same-origin" });
    text = await answer.text();
  } catch {
    return { isLost: true };
  }
  const { status } = answer;
  const next = answer.headers.get("X-Next");
  if (next) return { next };
  const type = answer.headers.get("Content-Type") ?? "";
  if (text.trimStart().startsWith("<form")) return { status, form: text };
  return type.startsWith("text/plain") && !answer.redirected ? { status, sentence: text } : { status };
}

// content: HTML, or an element; opener: it gets the focus back.
export function open(content, opener) {
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  fill(dialog, content);
  dialog.addEventListener("click", (event) => {
    const cancel = event.target.closest("[data-close]");
    if (event.target !== dialog && !cancel) return;
    event.preventDefault();
    dialog.close();
  });
  dialog.addEventListener("close", () => {
    dialog.remove();
    focusAfter(opener);
  });
  dialog.addEventListener("submit", (event) => {
    event.preventDefault();
    send(dialog, event.target, event.submitter, opener);
  });
  document.body.append(dialog);
  show(dialog);
  dialog.querySelector("[autofocus]")?.focus();
}

// A small form is no obstacle: the page behind it stays in use, and goes on changing.
function show(dialog) {
  if (!dialog.querySelector("form[data-small]")) {
    dialog.showModal();
    return;
  }
  for (const other of document.querySelectorAll("dialog[open]")) if (other !== dialog) other.close();
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Escape") dialog.close();
  });
  dialog.show();
}

// A fragment is our own server's, and the Content-Security-Policy runs nothing inline.
function fill(dialog, content) {
  if (typeof content === "string") dialog.innerHTML = content;
  else dialog.replaceChildren(content);
  const title = dialog.querySelector("h1, h2");
  if (!title) return;
  title.id ||= "dialog-title";
  dialog.setAttribute("aria-labelledby", title.id);
}

async function send(dialog, form, submitter, opener) {
  // A second click must not post the act twice.
  if (dialog.dataset.sent) return;
  dialog.dataset.sent = "1";
  form.setAttribute("aria-busy", "true");
  const fields = new URLSearchParams(new FormData(form, submitter));
  const isAsking = form.method === "get"; // for a question, as after an act on several of which some failed
  const action = submitter?.hasAttribute("formaction") ? submitter.formAction : form.action;
  const answer = await (isAsking ? answerOf(`${action}?${fields}`) : answerOf(action, { method: "POST", body: fields }));
  if (answer.next) {
    rememberOpener(opener);
    location.assign(answer.next);
    return;
  }
  delete dialog.dataset.sent;
  form.removeAttribute("aria-busy");
  if (!dialog.isConnected) return; // the user has cancelled meanwhile
  if (answer.form) {
    fill(dialog, answer.form);
    dialog.scrollTop = 0;
    const complaints = complaintsOf(dialog);
    // Without a complaint it is the next step, such as a preview.
    focusOn(complaints ?? dialog.querySelector("h1, h2"));
  } else if (answer.isLost) {
    complain(dialog, "The server did not answer: the act may be done or not. Look at the figures before trying again.");
    isServerGone(); // the page and the dialog show it, too
  } else {
    complain(dialog, answer.sentence ?? `The server answered with status ${answer.status}.`);
    if (answer.status === NOT_LOGGED_IN) offerLogIn(dialog);
  }
}

function complaintsOf(dialog) {
  return dialog.querySelector(".errorlist")?.closest('[role="alert"]');
}

function complain(dialog, sentence) {
  complaintsOf(dialog)?.remove();
  const line = document.createElement("p");
  line.className = "errorlist";
  line.setAttribute("role", "alert");
  line.textContent = sentence;
  dialog.querySelector("h1, h2").after(line);
  dialog.scrollTop = 0;
  focusOn(line);
}

function offerLogIn(dialog) {
  const link = document.createElement("a");
  link.href = logInPath();
  link.textContent = "Log in, and go on with this form";
  dialog.querySelector(".errorlist").append(" ", link);
}

// A log-in takes the form of an open dialog along: the server answers it with the log-in, and shows the question again after that.
document.addEventListener("click", (event) => {
  const form = event.target.closest(`a[href^="${pathOf("login/")}"]`) && document.querySelector('dialog[open] form[method="post"]');
  if (!form?.elements.typed_by) return;
  event.preventDefault();
  const askAlone = document.createElement("input");
  askAlone.type = "hidden";
  askAlone.name = "ask_alone"; // another tab may have logged in meanwhile
  form.append(askAlone);
  HTMLFormElement.prototype.submit.call(form);
});

function focusOn(element) {
  element.tabIndex = -1;
  element.focus();
}

// The dialog for an act whose question can't be shown.
function refusal(sentence) {
  const body = document.createElement("div");
  body.className = "dialog-body";
  body.innerHTML = `<h2>Not possible now</h2><p role="alert"></p>
    <div class="form-row-inline act-buttons"><button type="button" class="button" data-close autofocus>Close</button></div>`;
  body.querySelector("p").textContent = sentence;
  return body;
}
