// Keyboard: "/" goes to the search, "g" then "o", "t" or "a" to a place. Not while typing, not with modifiers.
const places = { o: 0, t: 1, a: 2 };
let pendingSince = 0;

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  if (event.target.closest("input, textarea, select, [contenteditable], dialog")) return;
  if (event.key === "/") {
    const search = document.querySelector(".search input");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  } else if (event.key === "g") {
    pendingSince = event.timeStamp;
  } else if (event.key in places && event.timeStamp - pendingSince < 1500) {
    document.querySelectorAll(".places a")[places[event.key]]?.click();
  }
});

// The who-you-are menu closes when one clicks elsewhere or presses Escape.
const who = document.querySelector(".who");
if (who) {
  document.addEventListener("click", (event) => {
    if (who.open && !who.contains(event.target)) who.open = false;
  });
  who.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    who.open = false;
    who.querySelector("summary").focus();
  });
}
