// The console's paths for scripts. The page names where they begin: behind a proxy that may be a sub-path, such as /queue/.
export function pathOf(path) {
  return document.body.dataset.root + path;
}

// The log-in that leads back to this page.
export function logInPath() {
  return `${pathOf("login/")}?next=${encodeURIComponent(location.pathname + location.search)}`;
}
