// The page's Plotly graphs: empty figures from the page, columns from the API, then a point a second from the socket.
// Nothing of this is needed to read the page: it starts after the first paint, and works on graphs in view only.
import { saveCsv } from "./csv.js";
import { COUNTED, DURATION, fileRows, MEASURED, rowTime, tableOf } from "./graph_table.js";
import { addToPast, past, rangeWords, resetZoom, startRanges, zoomTo } from "./history.js";
import { bandTrace, countAxis, duration, hatchAxis, hatches, highestOf, pastAxes, rate, steadyRates, wordsFor } from "./history_drawing.js";
import { addLiveSecond, firstKnown, liveSeconds, SECONDS, startSeconds, timesOfSeconds } from "./live_seconds.js";
import { timeAxis } from "./time_axis.js";

const WORD_SHARE = 0.1; // of a graph's width: the space of the word at a pause
const START_SECONDS = 120; // the shortest time a graph spans
const PAST_LEGEND_MS = 5_000; // peaks are looked for among thousands of points
const graphs = new Map(); // name → Graph
let plotly = null;
let probe = null;

export function startGraphs() {
  const places = [...document.querySelectorAll("[data-graph]")];
  const source = document.getElementById("figures");
  const url = document.body.dataset.plotly;
  if (!places.length || !source) return;
  const figures = JSON.parse(source.textContent);
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const graph = graphs.get(entry.target.dataset.graph);
      graph.isVisible = entry.isIntersecting;
      if (entry.isIntersecting) requestAnimationFrame(() => graph.draw());
    }
  });
  for (const place of places) {
    graphs.set(place.dataset.graph, new Graph(place, figures[place.dataset.graph]));
    seen.observe(place);
  }
  startRanges(showRange, startSeconds(drawAll));
  addEventListener("themechange", redress);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redress);
  if (!url) {
    for (const graph of graphs.values()) graph.say("Graphs are not available on this server.");
    return;
  }
  // Two frames later the page is painted: evaluating plotly.js takes a second of this thread.
  requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => load(url), 0)));
}

// Another range, or new figures of the one that is shown.
function showRange() {
  for (const graph of graphs.values()) graph.showRange();
}

export function applyPoints(update) {
  if (!graphs.size) return;
  addToPast(update.second, update.points, update.flags.paused);
  addLiveSecond(update);
  for (const [name, graph] of graphs) graph.legend(update.legends[name] ?? {});
  drawAll();
}

function drawAll() {
  for (const graph of graphs.values()) graph.draw();
}

function load(url) {
  // plotly.js brings a style sheet for maps, which the Content-Security-Policy refuses and no graph here needs. It
  // looks first whether an element with that sheet's id is there.
  for (const id of document.body.dataset.plotlyStyles.split(" ").filter(Boolean)) {
    const placeholder = document.createElement("meta");
    placeholder.id = id;
    document.head.append(placeholder);
  }
  const script = document.createElement("script");
  script.src = url;
  script.addEventListener("load", () => {
    plotly = window.Plotly;
    drawAll();
  });
  script.addEventListener("error", () => {
    for (const graph of graphs.values()) graph.say("The graph could not be loaded: reload the page to try again.");
  });
  document.head.append(script);
}

function redress() {
  for (const graph of graphs.values()) graph.redress();
}

class Graph {
  constructor(place, figure) {
    this.place = place;
    this.plot = place.querySelector(".plot");
    this.name = place.dataset.graph;
    this.figure = figure;
    this.isVisible = false;
    this.isDrawn = false;
    this.drawn = ""; // the key of the last drawing
    this.hidden = new Set();
    this.revision = 0;
    this.isPastOnly = place.hidden; // the server keeps no live seconds of it
    // The legend of the newest update: column → [label, value].
    this.lines = Object.fromEntries(
      [...place.querySelectorAll(".legend button")].map((line) => [
        line.dataset.column,
        [".label", ".now"].map((part) => line.querySelector(part).textContent),
      ]),
    );
    this.legendShown = -Infinity;
    place.querySelector(".legend").addEventListener("click", (event) => {
      const line = event.target.closest("button");
      if (line) this.toggle(line);
    });
    place.querySelector("[data-csv]").addEventListener("click", () => this.save());
    this.details = place.querySelector("details");
    this.details.addEventListener("toggle", () => {
      this.table(); // also where no graph can be drawn
      this.drawAfresh();
    });
  }

  say(text) {
    const waiting = this.plot.querySelector(".waiting");
    if (waiting) waiting.textContent = text;
  }

  get config() {
    const { topic, channel } = JSON.parse(document.body.dataset.subscribe);
    const filename = ["penstock", topic, channel, this.name].filter(Boolean).join("-");
    return { ...CONFIG, toImageButtonOptions: { format: "png", filename, scale: 2 } };
  }

  get columns() {
    return (past() ?? liveSeconds())?.graphs[this.name] ?? [];
  }

  showRange() {
    if (this.isPastOnly) this.place.hidden = !past() || past().step_s === 1;
    else this.place.hidden = Boolean(past()) && !(this.name in past().graphs); // it has live seconds alone
    this.drawn = "";
    this.legendShown = -Infinity;
    this.legend(this.lines);
    this.draw();
  }

  toggle(line) {
    const column = line.dataset.column;
    if (!this.hidden.delete(column)) this.hidden.add(column);
    line.setAttribute("aria-pressed", String(!this.hidden.has(column)));
    this.drawAfresh();
  }

  legend(live) {
    this.lines = live;
    const range = past();
    const lines = range ? this.pastLines(range, live) : live;
    if (!lines) return;
    const place = this.place.querySelector(".legend");
    const names = Object.keys(lines);
    const shown = [...place.children].map((line) => line.dataset.column);
    if (names.join("\n") !== shown.join("\n")) {
      place.replaceChildren(...names.map((name, index) => legendLine(name, this.figure.data[index], this.hidden.has(name))));
    }
    [...place.children].forEach((line, index) => {
      const [label, value] = lines[names[index]];
      setText(line.querySelector(".label"), label);
      setText(line.querySelector(".now"), value);
    });
    const title = this.place.querySelector("h2").textContent;
    const summary = names.map((name) => lines[name].join(" ")).join(", ");
    // Screen readers read it at the graph, and do not announce it every second.
    const when = range ? `${rangeWords(range)}.` : "last 15 minutes. Now:";
    this.plot.setAttribute("aria-label", `${title}, ${when} ${summary}`);
  }

  // A range's legend: the current value, where the range reaches it, and the peak. Null while it need not change.
  pastLines(range, live) {
    const now = performance.now();
    if (now - this.legendShown < PAST_LEGEND_MS) return null;
    this.legendShown = now;
    return Object.fromEntries(
      (range.graphs[this.name] ?? []).map((column) => {
        const values = this.drawnOf(range, column);
        const hasValues = values.some((value) => value !== null);
        const peak = hasValues ? `peak ${this.worded(highestOf(values, range.band[column]))}` : "nothing recorded";
        const newest = range.node ? undefined : live[column]?.[1]; // live figures are of all nodes
        const value = range.grows && (newest ?? ((this.isDuration || range.node) && this.newestOf(range, values)));
        return [column, [range.labels[column], value && hasValues ? `${value} · ${peak}` : peak]];
      }),
    );
  }

  // Of figures recorded by the minute and not live: the newest value, and its time.
  newestOf(range, values) {
    const index = values.findLastIndex((one) => one !== null);
    return index < 0 ? "" : `${this.worded(values[index])} at ${rowTime(range.times[index], range)}`;
  }

  get isDuration() {
    return this.name === "latency";
  }

  get isRate() {
    return this.figure.data[0].hovertemplate.endsWith("/s");
  }

  drawnOf(range, column) {
    return this.isRate ? steadyRates(range, column) : range.columns[column];
  }

  worded(value) {
    if (value === undefined || value === null) return "";
    if (this.isDuration) return duration(value);
    if (this.isRate) return rate(value);
    return value.toLocaleString("en", { maximumFractionDigits: 0 });
  }

  draw() {
    const range = past();
    const series = liveSeconds();
    if (!plotly || !(range ?? series) || !this.isVisible || document.hidden || !this.plot.isConnected) return;
    const sign = range ? `past ${range.drawing}` : `${series.newest} ${this.columns.join()}`;
    if (sign === this.drawn) return;
    this.drawn = sign;
    if (this.details.open) {
      this.table();
      return;
    }
    const data = this.data();
    const layout = this.layout();
    if (this.isDrawn) {
      plotly.react(this.plot, data, layout, this.config);
    } else {
      this.isDrawn = true;
      this.plot.replaceChildren();
      plotly.newPlot(this.plot, data, layout, this.config);
      // The label describes the graph; without it a screen reader would read every tick.
      for (const drawing of this.plot.querySelectorAll(".main-svg")) drawing.setAttribute("aria-hidden", "true");
      this.plot.on("plotly_relayout", (change) => this.zoomed(change));
    }
  }

  data() {
    this.dressedFigure ??= dressed(this.figure);
    if (past()) return this.pastData(past());
    const series = liveSeconds();
    const times = timesOfSeconds();
    const lines = this.columns.map((column, index) => ({
      ...this.dressedFigure.data[index % this.dressedFigure.data.length],
      name: series.labels[column],
      x: times,
      y: series.columns[column],
      visible: !this.hidden.has(column),
    }));
    return [...hatches(series.partial, colour("var(--warning)")), ...lines];
  }

  pastData(range) {
    const { times } = range;
    const lines = this.columns.map((column, index) => ({
      ...this.dressedFigure.data[index % this.dressedFigure.data.length],
      name: range.labels[column],
      x: times,
      y: this.drawnOf(range, column),
      ...(this.isDuration && { text: range.columns[column].map((value) => this.worded(value)) }),
      visible: !this.hidden.has(column),
    }));
    const shown = lines.map((line, index) => [line, range.band[this.columns[index]]]).filter(([line, band]) => line.visible && band);
    return [...hatches(range.partial, colour("var(--warning)")), ...shown.map(([line, band]) => bandTrace(times, band, line)), ...lines];
  }

  layout() {
    this.dressedFigure ??= dressed(this.figure);
    this.revision += 1;
    const layout = structuredClone(this.dressedFigure.layout);
    layout.datarevision = this.revision;
    const range = past();
    hatchAxis(layout, (range ?? liveSeconds()).partial);
    const shown = this.columns.filter((column) => !this.hidden.has(column));
    if (range) {
      const top = Math.max(0, ...shown.map((column) => highestOf(this.drawnOf(range, column), range.band[column])));
      countAxis(layout, top, this.isRate);
      pastAxes(layout, range, this.isDuration, top);
      layout.shapes = range.paused.map(([first, last]) => spanShape(first, last, "var(--held)"));
      // Only beside a pause that is wide enough for the word.
      const long = range.paused.filter(([first, last]) => last - first > WORD_SHARE * (range.to - range.from));
      layout.annotations = long.map(([first]) => pauseWord(first, range.from, range.to));
      if (shown.length) wordsFor(layout, top, shown.some((column) => range.columns[column].some((value) => value !== null)));
      timeAxis(layout, [range.from, range.to], { ...range, hasDates: true }, this.plot.clientWidth);
      return layout;
    }
    const series = liveSeconds();
    layout.shapes = series.paused.map(([first, last]) => spanShape(first, last, "var(--held)"));
    // A server that has just started shows its first seconds, not an empty quarter of an hour.
    const first = series.newest - SECONDS + 1 + Math.min(...this.columns.map(firstKnown), SECONDS - START_SECONDS);
    const earliest = series.newest - SECONDS + 1;
    layout.annotations = series.paused.map(([begin]) => pauseWord(Math.max(begin, earliest), first, series.newest));
    const top = Math.max(0, ...shown.map((column) => highestOf(series.columns[column])));
    countAxis(layout, top, this.isRate);
    if (shown.length) wordsFor(layout, top, this.columns.some((column) => firstKnown(column) < SECONDS));
    const points = { times: timesOfSeconds(), step_s: 1, hasDates: false };
    timeAxis(layout, [first, series.newest], points, this.plot.clientWidth);
    return layout;
  }

  zoomed(change) {
    const [first, end] = change["xaxis.range"] ?? [change["xaxis.range[0]"], change["xaxis.range[1]"]];
    if (first !== undefined) zoomTo(first, end);
    else if (!("xaxis.autorange" in change)) return;
    else if (past()) resetZoom(); // two clicks
    else this.drawAnew();
  }

  // Plotly keeps the user's zoom as long as uirevision stays the same.
  drawAnew() {
    this.figure.layout.uirevision = `${this.figure.layout.uirevision}.`;
    this.redress();
  }

  redress() {
    this.dressedFigure = undefined;
    this.drawAfresh();
  }

  // Also graphs that have not changed since the last drawing.
  drawAfresh() {
    this.drawn = "";
    this.draw();
  }

  get kind() {
    if (this.isDuration) return DURATION;
    return this.isRate ? COUNTED : MEASURED;
  }

  // The drawn data as rows; null before it is loaded.
  get figures() {
    const series = liveSeconds();
    if (past() || !series?.newest) return past();
    return { times: timesOfSeconds(), step_s: 1, columns: series.columns, band: {}, weights: {}, labels: series.labels };
  }

  // The graph as a table, in the plot's place.
  table() {
    const { figures } = this;
    if (!this.details.open || !figures) return;
    const { head, words, rows } = tableOf(figures, this.columns, this.kind);
    const table = document.createElement("table");
    table.className = "list";
    table.createCaption().textContent = words;
    const heads = table.createTHead().insertRow();
    for (const text of head) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = text;
      if (heads.cells.length) cell.className = "number";
      heads.append(cell);
    }
    const body = table.createTBody();
    for (const [second, ...values] of rows) {
      const row = body.insertRow();
      row.insertCell().textContent = rowTime(second, figures);
      for (const value of values) {
        const cell = row.insertCell();
        cell.className = "number";
        if (value === null) cell.textContent = "–";
        else cell.textContent = this.isDuration ? this.worded(value) : value.toLocaleString("en", { maximumFractionDigits: 1 });
      }
    }
    this.details.querySelector(".scroll").replaceChildren(table);
  }

  save() {
    const { topic, channel } = JSON.parse(document.body.dataset.subscribe);
    if (this.figures) saveCsv([topic, channel, this.name], fileRows(this.figures, this.columns, this.kind));
  }
}

const CONFIG = {
  displaylogo: false,
  showTips: false,
  displayModeBar: "hover",
  responsive: true,
  // plotly.js resets to the range of the first drawing, which is out of date: show the whole range instead.
  doubleClick: "autosize",
  modeBarButtons: [["zoom2d", "pan2d", "autoScale2d", "toImage"]],
};

function legendLine(name, trace, isHidden) {
  const line = document.createElement("button");
  line.type = "button";
  line.dataset.column = name;
  line.title = "Show or hide this line";
  line.className = trace.line.color.match(/series-\d/)[0];
  line.setAttribute("aria-pressed", String(!isHidden));
  for (const part of ["label", "now"]) {
    const span = document.createElement("span");
    span.className = part;
    line.append(span, " ");
  }
  return line;
}

// The figure with the page's own colours in place of their names.
function dressed(figure) {
  const dress = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? colour(value) : value;
    if (Array.isArray(value)) return value.map(dress);
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, dress(inner)]));
    }
    return value;
  };
  const made = dress(figure);
  made.layout.font.family = getComputedStyle(document.body).fontFamily;
  return made;
}

// The colours of plotly.js: a token's colour in the theme that is shown. A token's own text has one for each theme.
function colour(token) {
  probe ??= document.body.appendChild(Object.assign(document.createElement("span"), { hidden: true }));
  probe.style.color = token;
  return getComputedStyle(probe).color;
}

function spanShape(first, last, token) {
  return {
    type: "rect", xref: "x", yref: "paper", layer: "below",
    x0: first, x1: last, y0: 0, y1: 1,
    fillcolor: colour(token), opacity: 0.12, line: { width: 0 },
  };
}

// The word stands inside the pause, or before one that has only just begun.
function pauseWord(first, from, newest) {
  const isAtTheEnd = (first - from) / (newest - from) > 0.85;
  const held = colour("var(--held)");
  return {
    xref: "x", yref: "paper", x: first, y: 1,
    xanchor: isAtTheEnd ? "right" : "left", yanchor: "top", showarrow: false, text: "❚❚ paused", font: { size: 11, color: held },
  };
}

function setText(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}
