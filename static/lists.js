// The list of a page and the range of its graphs share the URL: a link of the one keeps the fields of the other. Without
// scripts a list's links lead to the live range.
const OF_LIST = ["q", "show", "sort", "number", "draw"];
const OF_GRAPHS = ["range", "from", "to", "step", "node", "as"];

// A range's link, with the list's fields of the URL.
export function withList(href) {
  return withFields(href, OF_LIST);
}

function withFields(href, names) {
  const url = new URL(href, location.href);
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (names.includes(name) && !url.searchParams.has(name)) url.searchParams.append(name, value);
  }
  return url.pathname + url.search;
}

for (const kind of ["mousedown", "click"]) {
  document.addEventListener(kind, ({ target }) => {
    const link = target.closest("[data-list-link]");
    if (link) link.setAttribute("href", withFields(link.href, OF_GRAPHS));
  });
}

document.addEventListener("formdata", ({ target, formData }) => {
  if (!target.matches("[data-list-form]")) return;
  // Empty fields are left out of the URL.
  for (const name of ["q", "draw"]) {
    const values = formData.getAll(name).filter(Boolean);
    formData.delete(name);
    for (const value of values) formData.append(name, value);
  }
  for (const [name, value] of new URLSearchParams(location.search)) {
    if (OF_GRAPHS.includes(name)) formData.append(name, value);
  }
});

// The menu of a list's order closes at a click elsewhere and at Escape.
const order = document.querySelector(".order");
document.addEventListener("click", ({ target }) => {
  if (order?.open && !order.contains(target)) order.open = false;
});
order?.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  order.open = false;
  order.querySelector("summary").focus();
});
