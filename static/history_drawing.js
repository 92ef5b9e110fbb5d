// How a range of the past is drawn: bands from least to most, axes of counts and durations, durations in words.
const DAY_S = 86_400;

// A duration of two units at most: 340 ms, 2.5 s, 14m 02s, 1h 02m, 6d 02h.
export function duration(ms) {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.floor(s)} s`;
  const two = (number) => String(Math.floor(number)).padStart(2, "0");
  if (s < 3600) return `${Math.floor(s / 60)}m ${two(s % 60)}s`;
  if (s < DAY_S) return `${Math.floor(s / 3600)}h ${two((s % 3600) / 60)}m`;
  return `${Math.floor(s / DAY_S)}d ${two((s % DAY_S) / 3600)}h`;
}

// Messages a second, as the server writes them (vocabulary/units.py): 5,612/s, 3.4/s, 0.05/s.
export function rate(perSecond) {
  const digits = perSecond >= 9.95 ? 0 : perSecond >= 0.095 ? 1 : 2;
  const text = perSecond.toLocaleString("en", { maximumFractionDigits: digits });
  return text === "0" && perSecond ? "<0.01/s" : `${text}/s`;
}

// The area between the least and the most of a line, a closed shape for each stretch without a gap.
export function bandTrace(times, [low, high], trace) {
  const x = [];
  const y = [];
  for (let index = 0; index < times.length; index += 1) {
    if (low[index] === null) continue;
    const first = index;
    while (index < times.length && low[index] !== null) index += 1;
    const stretch = times.slice(first, index);
    x.push(...stretch, ...stretch.toReversed(), stretch[0], null);
    y.push(...low.slice(first, index), ...high.slice(first, index).toReversed(), low[first], null);
  }
  return {
    type: "scatter", mode: "lines", x, y, fill: "toself", fillcolor: trace.line.color,
    line: { width: 0.75, color: trace.line.color }, // a peak of one point is a stroke
    opacity: 0.28, hoverinfo: "skip", showlegend: false, name: "",
  };
}

// Times that lack a node's part are hatched over the whole height, on an axis of their own (hatchAxis).
export function hatches(spans, fgcolor) {
  if (!spans?.length) return [];
  return [{
    type: "scatter", mode: "none", yaxis: "y2", fill: "toself", fillcolor: "rgba(0, 0, 0, 0)",
    x: spans.flatMap(([first, last]) => [first, first, last + 1, last + 1, first, null]), y: spans.flatMap(() => [0, 1, 1, 0, 0, null]),
    fillpattern: { shape: "/", size: 6, solidity: 0.15, fgcolor, bgcolor: "rgba(0, 0, 0, 0)" }, hoverinfo: "skip", showlegend: false, name: "", opacity: 0.4, // it lies over the lines
  }];
}

export function hatchAxis(layout, spans) {
  if (spans?.length) layout.yaxis2 = { overlaying: "y", range: [0, 1], visible: false, fixedrange: true };
}

// Axes for a range of the past; of durations where the graph is one of these.
export function pastAxes(layout, { revision: uirevision }, isDuration, top) {
  layout.uirevision = `past ${uirevision}`;
  layout.margin.r = 12;
  if (!isDuration) return;
  layout.yaxis.range = [0, top > 0 ? top * 1.08 : 1];
  layout.yaxis.tickvals = top > 0 ? durationTicks(layout.yaxis.range[1]) : [0];
  layout.yaxis.ticktext = layout.yaxis.tickvals.map((ms) => (ms ? duration(ms) : "0"));
  layout.margin.l = 60;
}

// An axis from nothing to the highest value. Thousands and millions have a letter; small rates get none, since half a
// message a second would be "500m". Of messages there are no halves.
export function countAxis(layout, top, isRate) {
  // An axis of nothing but zeroes would run from -1 to 1.
  layout.yaxis.range = [0, top > 0 ? top * 1.08 : 1];
  if (top <= 0) layout.yaxis.tickvals = [0]; // figures that no line comes to would only look like some
  if (top >= 5 || top <= 0) return;
  if (isRate) layout.yaxis.tickformat = "~g";
  else layout.yaxis.dtick = 1;
}

// A word on an axis without figures: nothing happened, or there is no data. Lines keep below a pause's word.
export function wordsFor(layout, top, isKnown) {
  if (top > 0) {
    if (layout.annotations.length) layout.yaxis.range[1] *= 1.12;
    return;
  }
  layout.annotations.push({
    xref: "paper", yref: "paper", x: 0.5, y: 0.5, showarrow: false, text: isKnown ? "none in this time" : "nothing recorded in this time", font: { size: 12, color: layout.xaxis.color },
  });
}

const TICK_STEPS_MS = [60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400].map((s) => s * 1000);
function durationTicks(top) {
  const rough = top / 5;
  let step = TICK_STEPS_MS.find((one) => one >= rough) ?? Math.ceil(rough / (DAY_S * 1000)) * DAY_S * 1000;
  if (rough < 30_000) {
    const power = 10 ** Math.floor(Math.log10(rough));
    step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  }
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => index * step);
}

export function highestOf(column, band) {
  return (band?.[1] ?? column).reduce((top, value) => (value !== null && value > top ? value : top), 0);
}

// A range's rates as they are drawn. The newest point has fewer seconds than the others, and a second beside minutes would
// stand out: for the seconds to come it has the rate of the point before.
export function steadyRates({ columns, weights, step_s: step, grows }, name) {
  const values = columns[name];
  const last = values.length - 1;
  const seconds = weights[name]?.[last] || step;
  const before = values[last - 1] ?? null;
  if (!grows || seconds >= step || before === null || values[last] === null) return values;
  return values.with(last, (values[last] * seconds + before * (step - seconds)) / step);
}
