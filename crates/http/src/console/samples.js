// The history of the metrics: rows as the server sends them, by resolution, and what is read from them.
import { json } from "./server.js";

export const RANGES = [["1s", "10 min"], ["10s", "3 h"], ["1m", "24 h"]];
const SECONDS = { "1s": 1, "10s": 10, "1m": 60 };
const KEPT = { "1s": 600, "10s": 1080, "1m": 1440 };

export class Samples {
  #columns = [];
  #rows = { "1s": [], "10s": [], "1m": [] };

  get groups() {
    return [...new Set(this.#columns.map((column) => column.group).filter(Boolean))];
  }

  /** Asks for the rows that are missing. */
  async load(resolution) {
    const rows = this.#rows[resolution];
    const since = rows.length > 0 ? rows[rows.length - 1][0] : 0;
    const page = await json(`v1/history?resolution=${resolution}&since=${since}`);
    // Rows of a server with other groups say nothing in these columns.
    if (JSON.stringify(page.columns) !== JSON.stringify(this.#columns)) {
      const isFirst = this.#columns.length === 0;
      this.#columns = page.columns;
      this.#forget();
      if (!isFirst && since > 0) return this.load(resolution);
    }
    for (const row of page.rows) this.#add(resolution, row);
  }

  /** A row of the live stream. */
  add(row) {
    // Of a server with other groups: `load` follows.
    if (row.length !== this.#columns.length + 1) return;
    const last = this.#rows["1s"].at(-1)?.[0] ?? 0;
    // The server has another clock now, and what was kept would hide what is new.
    if (row[0] < last - 5) this.#forget();
    this.#add("1s", row);
  }

  #forget() {
    for (const resolution of Object.keys(this.#rows)) this.#rows[resolution] = [];
  }

  #add(resolution, row) {
    const rows = this.#rows[resolution];
    if (rows.length > 0 && row[0] <= rows[rows.length - 1][0]) return;
    // What was missed stays missing.
    const step = SECONDS[resolution];
    const missed = rows.length > 0 ? rows[rows.length - 1][0] + step : row[0];
    for (let at = Math.max(missed, row[0] - KEPT[resolution] * step); at < row[0]; at += step) {
      rows.push([at, ...this.#columns.map(() => null)]);
      if (rows.length > KEPT[resolution]) rows.splice(0, rows.length - KEPT[resolution]);
    }
    rows.push(row);
    if (rows.length > KEPT[resolution]) rows.shift();
  }

  times(resolution) {
    return this.#rows[resolution].map((row) => row[0]);
  }

  /** Positions in a row of a column, of one group or of all (`""`). */
  #positions(name, group) {
    const is = (column) => column.name === name && (!group || !column.group || column.group === group);
    return this.#columns.flatMap((column, index) => (is(column) ? [index + 1] : []));
  }

  /** The sum of columns by name, step by step; `null` where nothing was sampled. */
  sum(resolution, names, group = "") {
    const at = names.flatMap((name) => this.#positions(name, group));
    return this.#rows[resolution].map((row) =>
      at.length === 0 || at.every((index) => row[index] === null) ? null : at.reduce((sum, index) => sum + row[index], 0));
  }

  /** The same for each second. */
  rate(resolution, names, group = "") {
    return this.sum(resolution, names, group).map((n) => (n === null ? null : n / SECONDS[resolution]));
  }

  /** One sum divided by another. */
  ratio(resolution, above, below, group = "") {
    const [over, under] = [this.sum(resolution, above, group), this.sum(resolution, below, group)];
    return over.map((n, index) => (n === null || !under[index] ? null : n / under[index]));
  }

  /** The sum of a column over the last steps. */
  recent(steps, names, group = "") {
    return this.sum("1s", names, group).slice(-steps).reduce((sum, n) => sum + (n ?? 0), 0);
  }

  /** The latest value of a level. */
  latest(names, group = "") {
    return this.sum("1s", names, group).at(-1) ?? null;
  }

  /** A histogram, or the sum of several: the ends of its buckets, and for each step the counts. */
  histogram(resolution, names, group = "") {
    const isOf = (column) => [names].flat().includes(column.name);
    const ends = [...new Set(this.#columns.filter(isOf).map((column) => column.up_to))];
    const at = ends.map((end) => this.#columns.flatMap((column, index) =>
      (isOf(column) && column.up_to === end && (!group || column.group === group) ? [index + 1] : [])));
    const rows = this.#rows[resolution].map((row) => at.map((indexes) => indexes.reduce((sum, index) => sum + (row[index] ?? 0), 0)));
    return { ends, rows };
  }

  /** The duration that a share of the last steps' durations did not exceed, in seconds: the end of its bucket. */
  quantile(steps, share, names, group = "") {
    const { ends, rows } = this.histogram("1s", names, group);
    const counts = ends.map((_, bucket) => rows.slice(-steps).reduce((sum, row) => sum + row[bucket], 0));
    const all = counts.reduce((sum, n) => sum + n, 0);
    let sum = 0;
    for (let bucket = 0; bucket < ends.length; bucket += 1) {
      sum += counts[bucket];
      if (all > 0 && sum >= share * all) return ends[bucket];
    }
    return null;
  }
}
