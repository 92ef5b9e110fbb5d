// Runs before the first paint, so that a manual choice of theme never shows the other one first.
// A plain script, not a module: modules wait for the document.
(() => {
  document.documentElement.classList.add("scripted");
  const KEY = "penstock-theme";
  const choice = () => {
    try {
      return localStorage.getItem(KEY) ?? "system";
    } catch {
      return "system"; // storage may be forbidden; the system's choice still works
    }
  };
  const apply = () => {
    const theme = choice();
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  };
  apply();

  addEventListener("storage", (event) => {
    if (event.key !== KEY) return;
    apply();
    dispatchEvent(new Event("themechange"));
  });
  addEventListener("DOMContentLoaded", () => {
    for (const input of document.querySelectorAll("input[name=theme]")) {
      input.checked = input.value === choice();
      input.addEventListener("change", () => {
        try {
          localStorage.setItem(KEY, input.value);
        } catch {
          document.documentElement.dataset.theme = input.value;
        }
        apply();
        dispatchEvent(new Event("themechange"));
      });
    }
  });
})();
