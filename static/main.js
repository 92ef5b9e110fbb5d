// What every page runs after its first paint.
import "./keys.js";
import "./dialogs.js";
import "./live.js";
