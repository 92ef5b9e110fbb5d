// Times in the zone that the page shows: UTC where <html data-clock="utc"> is set, else the browser's own.
// Seconds are Unix seconds; a wall second is the time on the zone's clock, counted as if the clock were UTC.
const DAY_S = 86_400;
const OFFSET_SAMPLE_S = 14 * DAY_S; // shorter than any daylight saving time
const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function isUtc() {
  return document.documentElement.dataset.clock === "utc";
}

// How far the zone's clock is ahead of UTC at a moment.
export function offsetS(second) {
  return isUtc() ? 0 : -60 * new Date(second * 1000).getTimezoneOffset();
}

// The moments at which the zone's clock shows `wallS`, in order: two in an hour that is repeated, none in one that is skipped.
export function secondsOfWall(wallS) {
  const offsets = new Set([offsetS(wallS - DAY_S), offsetS(wallS + DAY_S)]);
  return [...offsets].map((offset) => wallS - offset).filter((second) => second + offsetS(second) === wallS).sort((a, b) => a - b);
}

// Whether the zone's clock shows the time of this moment at another one, too.
export function isRepeated(second) {
  return secondsOfWall(second + offsetS(second)).length > 1;
}

// "2026-10-25T02:30" as a field for date and time has it: of two moments the first; of none, the one as long after the gap.
export function secondOfField(text) {
  const wallS = Date.parse(`${text}Z`) / 1000;
  return secondsOfWall(wallS)[0] ?? wallS - offsetS(wallS - DAY_S);
}

export function fieldOf(second) {
  return wall(second).toISOString().slice(0, 16);
}

// The zone's offsets from `first` to `end`, in order of time.
export function offsetsIn(first, end = first) {
  const found = new Set();
  for (let second = first; second < end; second += OFFSET_SAMPLE_S) found.add(offsetS(second));
  return [...found.add(offsetS(end))];
}

// UTC, UTC+1, UTC−3:30; of a time with a change of the clock both: UTC+2 / UTC+1.
export function offsetWords(first, end = first) {
  return offsetsIn(first, end).map(offsetWord).join(" / ");
}

// Berlin (UTC+1); UTC alone has no place.
export function zoneWords(first, end = first) {
  const [, place] = isUtc() ? [] : Intl.DateTimeFormat().resolvedOptions().timeZone.match(/^(?!Etc).*\/(.+)$/) ?? [];
  const offsets = offsetWords(first, end);
  return place ? `${place.replaceAll("_", " ")} (${offsets})` : offsets;
}

// 02:30, or 02:30:15; with its offset in an hour that is repeated.
export function clockWords(second, withSeconds = false) {
  const time = timeWords(second, withSeconds);
  return isRepeated(second) ? `${time} ${offsetWords(second)}` : time;
}

export function timeWords(second, withSeconds = false) {
  return wall(second).toISOString().slice(11, withSeconds ? 19 : 16);
}

// 25 Oct; of another year 25 Oct 2025.
export function dayWords(second) {
  const year = wall(second).getUTCFullYear();
  return year === wall(Date.now() / 1000).getUTCFullYear() ? dateWords(second) : `${dateWords(second)} ${year}`;
}

export function dateWords(second) {
  const time = wall(second);
  return `${time.getUTCDate()} ${MONTHS[time.getUTCMonth()]}`;
}

export function weekdayWords(second) {
  return WEEKDAYS[wall(second).getUTCDay()];
}

// 25 Oct 02:30.
export function momentWords(second, withSeconds = false) {
  return `${dayWords(second)} ${clockWords(second, withSeconds)}`;
}

// 2026-10-25T02:30:00+02:00, for programs.
export function isoWords(second) {
  const minutes = Math.abs(offsetS(second)) / 60;
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  const zone = isUtc() ? "Z" : `${offsetS(second) < 0 ? "-" : "+"}${two(minutes / 60)}:${two(minutes % 60)}`;
  return `${wall(second).toISOString().slice(0, 19)}${zone}`;
}

// From when to when: 25 Oct 02:30 – 04:30.
export function spanWords(first, end, withSeconds = false) {
  const isOneDay = fieldOf(first).slice(0, 10) === fieldOf(end).slice(0, 10);
  return `${momentWords(first, withSeconds)} – ${isOneDay ? clockWords(end, withSeconds) : momentWords(end, withSeconds)}`;
}

// A date whose UTC fields are those of the zone's clock.
function wall(second) {
  return new Date((second + offsetS(second)) * 1000);
}

function offsetWord(offset) {
  const minutes = Math.abs(offset) / 60;
  const rest = minutes % 60 ? `:${String(minutes % 60).padStart(2, "0")}` : "";
  return offset ? `UTC${offset < 0 ? "−" : "+"}${Math.floor(minutes / 60)}${rest}` : "UTC";
}
