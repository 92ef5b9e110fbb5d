// A graph's axis of time: linear in Unix seconds, its words in the zone that the page shows.
import {
  clockWords, dateWords, dayWords, isRepeated, isUtc, offsetS, offsetsIn, offsetWords, secondsOfWall, timeWords, weekdayWords, zoneWords,
} from "./zones.js";

const DAY_S = 86_400;
const STEPS_S = [
  1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200,
  ...[1, 2, 4, 7, 14, 30, 60, 120].map((days) => days * DAY_S),
];
const NARROW_PX = 420; // a graph that has no room for the name of a zone
const TICK_PX = 60; // of a time and the space beside it
const LETTER_PX = 6.2; // of the ticks' font, on average
const GAP_PX = 10; // between the last time and the zone
const HOVER_WORDS_MAX = 20_000;

// Puts the times `first` to `end` on the axis and the zone at its right end.
// times, step_s: of the points, which are read on hover. hasDates: the date stands below the first time and wherever it changes.
export function timeAxis(layout, [first, end], { times, step_s: step, hasDates }, widthPx) {
  const plotPx = Math.max(1, widthPx - layout.margin.l - layout.margin.r);
  const zone = widthPx < NARROW_PX ? offsetWords(first, end) : zoneWords(first, end);
  const ticks = ticksOf(first, end, Math.min(10, plotPx / TICK_PX), hasDates);
  const span = end - first;
  const freePx = (tick) => (plotPx * (end - tick.second)) / span - (LETTER_PX * tick.longest) / 2;
  const shown = ticks.filter((tick) => freePx(tick) > LETTER_PX * zone.length + GAP_PX);
  if (shown.some((tick) => tick.text.includes("<br>"))) layout.margin.b = 40;
  Object.assign(layout.xaxis, {
    range: [first, end],
    // Of a point on a tick plotly would show the tick's text on hover: so a tick lies a tenth of a pixel beside it.
    tickvals: shown.map((tick) => tick.second + span * 2e-4),
    ticktext: shown.map((tick) => tick.text),
    tickangle: 0,
    hoverformat: "d",
    labelalias: hoverWords(times, step),
  });
  layout.annotations = [
    ...(layout.annotations ?? []),
    {
      xref: "paper", yref: "paper", x: 1, y: 0, xanchor: "right", yanchor: "top", yshift: -1, borderpad: 0, showarrow: false,
      text: zone, font: { size: layout.xaxis.tickfont.size, color: layout.xaxis.color }, name: "zone",
    },
  ];
}

// Times that the zone's clock shows as round ones, at most about `most`.
function ticksOf(first, end, most, hasDates) {
  const step = STEPS_S.find((one) => (end - first) / one <= most) ?? STEPS_S.at(-1);
  const offsets = offsetsIn(first, end);
  const last = end + Math.max(...offsets);
  const seconds = [];
  for (let wallS = Math.ceil((first + Math.min(...offsets)) / step) * step; wallS <= last; wallS += step) {
    const found = secondsOfWall(wallS);
    // A day may begin with a skipped hour.
    if (!found.length && step >= DAY_S) found.push(wallS - offsetS(wallS - DAY_S));
    seconds.push(...found.filter((second) => second >= first && second <= end));
  }
  let date = "";
  return seconds.sort((a, b) => a - b).map((second) => {
    if (step >= DAY_S) return tickOf(second, [dateWords(second)]);
    const below = [];
    if (hasDates && date !== dateWords(second)) below.push((date = dateWords(second)));
    if (isRepeated(second)) below.push(offsetWords(second));
    return tickOf(second, [timeWords(second, step < 60), below.join(" ")].filter(Boolean));
  });
}

function tickOf(second, lines) {
  return { second, text: lines.join("<br>"), longest: Math.max(...lines.map((line) => line.length)) };
}

let words = {}; // second → the text on hover; the points of the last draw are among them
let wordsSign = "";
function hoverWords(times, step) {
  const sign = [step, isUtc(), offsetsIn(times[0] ?? 0, times.at(-1) ?? 0)].join();
  if (sign !== wordsSign || Object.keys(words).length > HOVER_WORDS_MAX) words = {};
  wordsSign = sign;
  for (const second of times) words[second] ??= hoverWord(second, step);
  return words;
}

function hoverWord(second, step) {
  if (step === 1) return clockWords(second, true);
  return `${weekdayWords(second)} ${dayWords(second)}, ${clockWords(second)}`;
}
