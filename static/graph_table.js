// A graph's figures as rows: in the table each is an aggregate of an interval, in the file each is a point.
// figures: {times, step_s, columns, band, weights, labels} of a range or of the live seconds.
// A gauge (a depth) has a minimum, mean and maximum; a counter (messages published) a sum and a rate.
import { isoWords, momentWords, zoneWords } from "./zones.js";

const ROWS_MAX = 100;
const LIVE_ROW_S = 15;
const POINTS_OF_A_ROW = [1, 2, 3, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440];

export const COUNTED = "counted", MEASURED = "measured", DURATION = "duration";

// A column of each kind: the words in the head, and the figure of an interval.
const PARTS = {
  [COUNTED]: [["messages", ({ sum }) => Math.round(sum)], ["messages/s", ({ sum, seconds }) => sum / seconds]],
  [MEASURED]: [["minimum", ({ low }) => low], ["mean", ({ sum, seconds }) => sum / seconds], ["maximum", ({ high }) => high]],
  [DURATION]: [["minimum", ({ low }) => low], ["maximum", ({ high }) => high]],
};

// {head, words, rows}: rows of [second, …values], the newest first, without rows that have no value.
export function tableOf(figures, names, kind) {
  const { times, step_s: step, labels } = figures;
  const size = step === 1 ? LIVE_ROW_S : step * (POINTS_OF_A_ROW.find((count) => times.length / count <= ROWS_MAX) ?? 1440);
  const parts = kind === DURATION && size === step ? [["", ({ low }) => low]] : PARTS[kind];
  const rows = [];
  for (let end = times.length; end > 0; ) {
    const start = Math.floor(times[end - 1] / size) * size;
    let first = end - 1;
    while (first > 0 && times[first - 1] >= start) first -= 1;
    const sums = names.map((name) => aggregate(figures, name, first, end));
    if (sums.some((sum) => sum)) rows.push([start, ...sums.flatMap((sum) => parts.map(([, value]) => (sum ? value(sum) : null)))]);
    end = first;
  }
  return {
    head: [`From, ${zoneOf(times)}`, ...names.flatMap((name) => parts.map(([part]) => [labels[name], part].filter(Boolean).join(", ")))],
    words: `A row covers ${sizeWords(size)}.`,
    rows,
  };
}

// The file's rows, the head first, the oldest point after it; no value is an empty cell.
export function fileRows(figures, names, kind) {
  const { times, step_s: step, columns, band, labels } = figures;
  const unit = { [COUNTED]: "messages/s", [MEASURED]: "messages", [DURATION]: "ms" }[kind];
  const of = (name) => {
    const parts = [[`${labels[name]}, ${unit}`, (index) => columns[name][index]]];
    if (band[name]) {
      parts[0][0] = `${labels[name]} mean, ${unit}`;
      parts.push(...["minimum", "maximum"].map((word, which) => [`${labels[name]} ${word}, ${unit}`, (index) => band[name][which][index]]));
    }
    const counted = (index) => aggregate(figures, name, index, index + 1);
    if (kind === COUNTED && step > 1) parts.push([`${labels[name]}, messages`, (index) => counted(index) && Math.round(counted(index).sum)]);
    return parts;
  };
  const parts = names.flatMap(of);
  return [
    [`Time, ${zoneOf(times)}`, ...parts.map(([head]) => head)],
    ...times.map((second, index) => [isoWords(second), ...parts.map(([, value]) => value(index))]),
  ];
}

// Of points [first, end): least, most, sum (value × seconds) and the seconds with a value; null without any.
function aggregate({ step_s: step, columns, band, weights }, name, first, end) {
  const found = { low: Infinity, high: -Infinity, sum: 0, seconds: 0 };
  for (let index = first; index < end; index += 1) {
    const value = columns[name][index];
    if (value === null || value === undefined) continue;
    const seconds = weights[name]?.[index] || step;
    found.low = Math.min(found.low, band[name]?.[0][index] ?? value);
    found.high = Math.max(found.high, band[name]?.[1][index] ?? value);
    found.sum += value * seconds;
    found.seconds += seconds;
  }
  return found.seconds ? found : null;
}

export function rowTime(second, figures) {
  return momentWords(second, figures.step_s === 1);
}

function zoneOf(times) {
  return times.length ? zoneWords(times[0], times.at(-1)) : zoneWords(Date.now() / 1000);
}

function sizeWords(size) {
  const [number, word] = size % 3600 === 0 ? [size / 3600, "hour"] : size % 60 === 0 ? [size / 60, "minute"] : [size, "second"];
  return number === 1 ? `${word === "hour" ? "an" : "a"} ${word}` : `${number} ${word}s`;
}
