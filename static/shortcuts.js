// Whether keys that need no other key do something (WCAG 2.1.4). The choice is stored in the browser, as the theme's is.
const KEY = "penstock-shortcuts";
let areOff = stored() === "off";
show();

// All listeners for single keys check this first.
export function shortcutsAreOn() {
  return !areOff;
}

const box = document.querySelector("input[name=shortcuts]");
if (box) {
  box.closest("[hidden]").hidden = false;
  box.checked = !areOff;
  box.addEventListener("change", () => {
    areOff = !box.checked;
    try {
      localStorage.setItem(KEY, areOff ? "off" : "on");
    } catch {
      // Storage may be forbidden: then the choice holds for this page.
    }
    show();
  });
}
addEventListener("storage", (event) => {
  if (event.key !== KEY) return;
  areOff = event.newValue === "off";
  if (box) box.checked = !areOff;
  show();
});

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

// Texts that name a key on the page are hidden with it.
function show() {
  document.documentElement.toggleAttribute("data-no-shortcuts", areOff);
  for (const place of document.querySelectorAll(".places a[data-key]")) {
    place.title = areOff ? "" : `${place.textContent}: press g, then ${place.dataset.key}`;
  }
}
