// Each list can be downloaded: the rows of this page and of all that follow, as the page's filter and the user's role
// have them. The pages come from the server, so times are UTC, as in the heads. A page may have other lists beside the
// one with pages: those are this page's alone.
import { saveCsv } from "./csv.js";

const PAGES_MAX = 400;
const NO_FIGURES = ":is(.select-cell, .pick, .acts-cell, .action-cell, .spark-cell)";

for (const table of document.querySelectorAll("main table.list")) offer(table);

function offer(table) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "csv-link list-csv";
  button.textContent = "CSV";
  button.title = "Download this list and the pages that follow, with the filter of this page";
  button.setAttribute("aria-label", `${nameOf(table)} as CSV`);
  button.addEventListener("click", () => download(table, button));
  const panel = table.closest(".panel") ?? table.parentElement;
  const head = panel.querySelector(":scope > .panel-head");
  if (head) {
    head.append(button);
    return;
  }
  const foot = document.createElement("div");
  foot.className = "list-foot";
  foot.append(button);
  panel.append(foot);
}

function nameOf(table) {
  const heading = table.closest(".panel")?.querySelector("h2") ?? table.caption ?? document.querySelector("h1");
  return heading.textContent.trim();
}

async function download(table, button) {
  const place = [...document.querySelectorAll("main table.list")].indexOf(table);
  button.disabled = true;
  try {
    const rows = await rowsOf(place, table, (count) => (button.textContent = `CSV: ${count} rows…`));
    saveCsv([document.querySelector("h1").textContent.trim(), nameOf(table)].filter((part, at, all) => all.indexOf(part) === at), rows);
    button.textContent = "CSV";
  } catch (error) {
    button.textContent = `CSV failed: ${error.message}`;
  }
  button.disabled = false;
}

// The head and the rows of the list at `place` among the page's lists, of this page and those behind it.
async function rowsOf(place, shown, report) {
  let href = linkTo(shown, "first") ?? location.href;
  let head = null;
  const rows = [];
  for (let pages = 0; href; pages += 1) {
    if (pages === PAGES_MAX) throw new Error(`more than ${rows.length} rows; narrow the filter`);
    const answer = await fetch(href);
    if (!answer.ok || answer.redirected) throw new Error(answer.redirected ? "log in again" : `status ${answer.status}`);
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const table = page.querySelectorAll("main table.list")[place];
    if (!table) break; // the page behind the last row
    const columns = [...table.tHead.rows[0].cells].map((cell, index) => [cell, index]).filter(([cell]) => !cell.matches(NO_FIGURES));
    head ??= columns.map(([cell]) => textOf(cell).replace(/ [↓↑↕].*$/, ""));
    for (const row of [...table.tBodies].flatMap((body) => [...body.rows])) {
      if (row.cells.length === table.tHead.rows[0].cells.length) rows.push(columns.map(([, index]) => valueOf(row.cells[index])));
    }    report(rows.length);
    href = linkTo(table, "next");
  }
  return [head ?? [], ...rows];
}

// Of the table's own pager, or one that stands outside all panels.
function linkTo(table, rel) {
  const links = [...table.ownerDocument.querySelectorAll(`main a[rel="${rel}"]`)];
  const link = links.find((one) => !one.closest("[hidden]") && (one.closest(".panel")?.contains(table) ?? true));
  return link ? new URL(link.getAttribute("href"), location.href).href : null;
}

function textOf(cell) {
  return cell.textContent.replace(/\s+/g, " ").trim();
}

// 1,204 is a number in a column of numbers, and text in one of reasons or keys; a dash means no value.
function valueOf(cell) {
  const text = textOf(cell);
  if (cell.matches("[data-verbatim]")) return text;
  if (text === "–") return "";
  const isNumber = !cell.matches(".text, .name") && /^[−-]?\d[\d,]*(\.\d+)?$/.test(text);
  return isNumber ? text.replaceAll(",", "").replace("−", "-") : text;
}
