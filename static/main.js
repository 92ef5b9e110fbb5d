// Runs on every page after its first paint.
import "./clock.js";
import "./keys.js";
import "./dialogs.js";
import "./standing.js";
import "./selection.js";
import "./lists.js";
import "./live.js";
import "./list_csv.js";
