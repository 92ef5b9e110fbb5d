// Copies a token's secret. A browser without a clipboard, as on a page without HTTPS, has no button for it.
const button = document.querySelector("[data-copy-secret]");
if (button && navigator.clipboard) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(document.querySelector("#secret").value);
      button.textContent = "Copied";
    } catch {
      button.textContent = "The browser refused the clipboard";
    }
  });
}
