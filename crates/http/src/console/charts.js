// Charts: lines and stacked areas in SVG, a heat map on a canvas. Each is a figure with a caption and a legend that has the numbers;
// the pointer or the arrow keys choose the moment that the legend shows.
import { clock, duration, el } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 58, right: 8, top: 8, bottom: 20 };

function svg(tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** What both kinds of charts have: the figure, its size, and the chosen moment. */
class Chart {
  constructor(title, note) {
    this.legend = el("ul", { class: "legend" });
    this.plot = el("div", { class: "plot" });
    this.figure = el("figure", { class: "card", tabindex: 0, "aria-label": title },
      el("figcaption", {}, el("h3", {}, title), note && el("span", { class: "note" }, note)), this.legend, this.plot);
    this.title = title;
    this.chosen = null;
    this.data = null;
    const choose = (index) => {
      this.chosen = index;
      this.draw();
    };
    this.plot.addEventListener("pointermove", (event) => {
      const box = this.plot.getBoundingClientRect();
      const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
      choose(share >= 0 && share <= 1 ? Math.round(share * (this.length() - 1)) : null);
    });
    this.plot.addEventListener("pointerleave", () => choose(null));
    this.figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30 }[event.key];
      if (event.key === "Escape") choose(null);
      if (!step || this.length() === 0) return;
      event.preventDefault();
      choose(Math.max(0, Math.min(this.length() - 1, (this.chosen ?? this.length()) + step)));
    });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  length() {
    return this.data?.times.length ?? 0;
  }

  show(data) {
    this.data = data;
    if (this.chosen !== null && this.chosen >= this.length()) this.chosen = null;
    this.draw();
  }

  size() {
    return { width: this.plot.clientWidth, height: this.plot.clientHeight };
  }

  x(index, width) {
    return MARGIN.left + (index / Math.max(1, this.length() - 1)) * (width - MARGIN.left - MARGIN.right);
  }

  /** The moments under the chart. */
  ticks(width) {
    const times = this.data.times;
    if (this.showPlace) {
      return times.map((place, index) => ({ x: this.x(index, width), text: this.showPlace(place), anchor: index === 0 ? "start" : index === times.length - 1 ? "end" : "middle" }));
    }
    const most = Math.min(times.length, Math.max(2, Math.min(6, Math.floor(width / 110))));
    const withSeconds = times.at(-1) - times[0] < 3600;
    return Array.from({ length: most }, (_, tick) => {
      const index = Math.round((tick / Math.max(1, most - 1)) * (times.length - 1));
      const anchor = tick === 0 ? "start" : tick === most - 1 ? "end" : "middle";
      return { x: this.x(index, width), text: clock(times[index], withSeconds), anchor };
    });
  }
}

/** A round number that is not less. */
function ceiling(n) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= n * 0.999);
}

function ceilingOfBytes(n) {
  let top = 1024;
  while (top < n) top *= 2;
  return [0.625, 0.75, 1].map((part) => part * top).find((end) => end >= n);
}

export class LineChart extends Chart {
  /**
   * `show` renders a value; `top`: the end of the scale if it is fixed; `stacked`: series stand on each other; `showPlace` renders a
   * place on the horizontal axis, where that is no time.
   */
  constructor(title, { show, note, stacked = false, top = null, inBytes = false, showPlace = null }) {
    super(title, note);
    Object.assign(this, { showValue: show, stacked, top, inBytes, showPlace });
    this.picture = svg("svg", { "aria-hidden": "true" });
    this.plot.append(this.picture);
  }

  draw() {
    const { width, height } = this.size();
    if (!this.data || width === 0) return;
    const { times, series } = this.data;
    const shown = this.chosen ?? times.length - 1;
    const items = series.map(({ name, values }, index) => {
      const swatch = el("span", { class: "swatch" });
      swatch.style.setProperty("--swatch", `var(--c${index % 6})`);
      return el("li", {}, swatch, `${name} `, el("b", {}, this.showValue(values[shown] ?? null)));
    });
    const place = this.showPlace ?? clock;
    const moment = this.chosen === null || times.length === 0 ? null : el("li", {}, `at ${place(times[shown])}`);
    this.legend.replaceChildren(...items, ...(moment ? [moment] : []));
    if (times.length < 2) {
      this.picture.replaceChildren(svg("text", { x: MARGIN.left, y: height / 2 }, "Nothing sampled yet."));
      return;
    }
    const stacks = this.stacked ? stack(series) : series.map(({ values }) => ({ low: null, high: values }));
    const peak = Math.max(0, ...stacks.flatMap(({ high }) => high.filter((n) => n !== null)));
    const top = this.top ?? (this.inBytes ? ceilingOfBytes(peak) : ceiling(peak));
    const y = (n) => height - MARGIN.bottom - (Math.min(n, top) / top) * (height - MARGIN.top - MARGIN.bottom);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const at = Math.round(y(share * top)) + 0.5;
      parts.push(svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      parts.push(svg("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, this.showValue(share * top)));
    }
    for (const { x, text, anchor } of this.ticks(width)) {
      parts.push(svg("text", { x, y: height - 4, "text-anchor": anchor }, text));
    }
    stacks.forEach(({ low, high }, index) => {
      const color = `var(--c${index % 6})`;
      for (const run of runs(high)) {
        const point = (values) => (at) => `${this.x(at, width).toFixed(1)},${y(values?.[at] ?? 0).toFixed(1)}`;
        const line = run.map(point(high)).join("L");
        if (this.stacked) {
          const back = [...run].reverse().map(point(low)).join("L");
          const area = svg("path", { d: `M${line}L${back}Z` });
          area.style.fill = color;
          area.style.fillOpacity = "0.55";
          parts.push(area);
        }
        const path = svg("path", { d: `M${line}${run.length === 1 ? "h1" : ""}`, fill: "none", "stroke-width": 1.6 });
        path.style.stroke = color;
        parts.push(path);
      }
    });
    if (this.chosen !== null) {
      const x = this.x(this.chosen, width);
      parts.push(svg("line", { class: "cursor", x1: x, x2: x, y1: MARGIN.top, y2: height - MARGIN.bottom }));
    }
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(...parts);
  }
}

/** Each series on top of those before it. */
function stack(series) {
  let low = null;
  return series.map(({ values }) => {
    const under = low;
    const high = values.map((n, index) => (n === null ? null : n + (under?.[index] ?? 0)));
    low = high.map((n, index) => n ?? under?.[index] ?? 0);
    return { low: under, high };
  });
}

/** The positions of values without a gap. */
function runs(values) {
  const found = [];
  let run = [];
  values.forEach((n, index) => {
    if (n !== null) run.push(index);
    if ((n === null || index === values.length - 1) && run.length > 0) {
      found.push(run);
      run = [];
    }
  });
  return found;
}

/** How long things took, over time: darker is more. */
export class HeatMap extends Chart {
  constructor(title, note) {
    super(title, note);
    this.figure.classList.add("heat", "wide");
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.plot.append(this.canvas);
  }

  draw() {
    const { width, height } = this.size();
    if (!this.data || width === 0) return;
    const { times, ends, rows } = this.data;
    const style = getComputedStyle(this.figure);
    const color = (name) => style.getPropertyValue(name).trim();
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const paint = this.canvas.getContext("2d");
    paint.scale(scale, scale);
    paint.font = "11px system-ui, sans-serif";
    paint.fillStyle = color("--soft");
    const used = ends.flatMap((_, bucket) => (rows.some((row) => row[bucket] > 0) ? [bucket] : []));
    const shown = this.chosen ?? null;
    const counted = (shown === null ? rows : [rows[shown]]).reduce((sum, row) => row.map((n, at) => n + (sum[at] ?? 0)), []);
    this.describe(counted, ends, shown);
    if (used.length === 0) {
      paint.fillText("Nothing was timed in this time.", MARGIN.left, height / 2);
      return;
    }
    const [first, last] = [Math.max(0, used[0] - 1), Math.min(ends.length - 1, used.at(-1) + 1)];
    const lines = last - first + 1;
    const line = (height - MARGIN.top - MARGIN.bottom) / lines;
    const columns = Math.min(rows.length, Math.floor((width - MARGIN.left - MARGIN.right) / 4));
    const column = (width - MARGIN.left - MARGIN.right) / columns;
    const merged = Array.from({ length: columns }, () => new Array(ends.length).fill(0));
    rows.forEach((row, index) => {
      const into = merged[Math.floor((index * columns) / rows.length)];
      row.forEach((n, bucket) => { into[bucket] += n; });
    });
    const most = Math.log1p(Math.max(...merged.flat()));
    const every = Math.ceil(lines / 8);
    for (let bucket = first; bucket <= last; bucket += 1) {
      const y = height - MARGIN.bottom - (bucket - first + 1) * line;
      paint.globalAlpha = 1;
      if ((bucket - first) % every === 0) {
        paint.fillStyle = color("--soft");
        paint.textAlign = "right";
        paint.fillText(duration(ends[bucket]), MARGIN.left - 6, y + line / 2 + 4);
      }
      merged.forEach((row, index) => {
        paint.globalAlpha = 1;
        paint.fillStyle = color("--heat0");
        const box = [MARGIN.left + index * column, y, Math.ceil(column), Math.max(1, line - 1)];
        paint.fillRect(...box);
        if (row[bucket] > 0) {
          paint.globalAlpha = 0.15 + 0.85 * (Math.log1p(row[bucket]) / most);
          paint.fillStyle = color("--heat1");
          paint.fillRect(...box);
        }
      });
    }
    paint.globalAlpha = 1;
    paint.fillStyle = color("--soft");
    for (const { x, text, anchor } of this.ticks(width)) {
      paint.textAlign = { start: "left", middle: "center", end: "right" }[anchor];
      paint.fillText(text, x, height - 4);
    }
  }

  describe(counts, ends, shown) {
    const all = counts.reduce((sum, n) => sum + n, 0);
    const quantile = (share) => {
      let sum = 0;
      return ends[counts.findIndex((n) => (sum += n) >= share * all && all > 0)] ?? null;
    };
    const item = (name, value) => el("li", {}, `${name} `, el("b", {}, value));
    const up = (seconds) => (seconds === null ? "–" : `≤ ${duration(seconds)}`);
    this.legend.replaceChildren(
      ...[["timed", all.toLocaleString("en")], ["median", up(quantile(0.5))], ["p99", up(quantile(0.99))], ["p99.9", up(quantile(0.999))]]
        .map(([name, value]) => item(name, value)),
      ...(shown === null ? [] : [el("li", {}, `at ${clock(this.data.times[shown])}`)]));
  }
}
