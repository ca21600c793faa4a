// Prefixes of keys: what memory holds of each, how old that is, how reads fare, and what is evicted.
import { bytes, count, duration, el, percent, redrawn, select, table } from "./elements.js";
import { jsonIfThere } from "./server.js";
import { brief, textOf } from "./values.js";

/** Prefixes of each group. */
const ROWS = 50;

/**
 * The share of a prefix's reads that memory answered, from the lists of `/v1/hot-keys`, of which `rows` were asked for. Both counts are
 * estimates. A prefix that is on no full list of misses has next to none.
 */
export function hitsOf(answer, rows) {
  const missed = answer?.prefixes?.by_misses ?? [];
  const read = answer?.prefixes?.by_reads ?? [];
  const same = (one, group, prefix) => one.group === group && textOf(one.prefix) === prefix;
  return (group, prefix) => {
    const reads = read.find((one) => same(one, group, prefix))?.reads ?? 0;
    if (reads === 0) return NaN;
    const misses = missed.find((one) => same(one, group, prefix))?.misses ?? (missed.length < rows ? 0 : NaN);
    return Math.min(1, Math.max(0, 1 - misses / reads));
  };
}

export class Prefixes {
  constructor() {
    this.element = el("section", { "aria-label": "Prefixes" });
    this.place = el("div");
    this.controls = el("div", { class: "bar" });
    this.group = "default";
    this.sorted = { column: 1, down: true };
    this.groups = [];
  }

  /** Half of the entries of a group are at most this old, in seconds. */
  age(group) {
    return this.groups.find((one) => one.group === group)?.age_seconds.p50 ?? NaN;
  }

  async ask() {
    // A user may have no right to see keys.
    this.groups = (await jsonIfThere(`v1/contents?count=${ROWS}`))?.groups ?? [];
    this.hot = this.groups.length === 0 ? null : await jsonIfThere("v1/hot-keys?count=500");
    this.draw();
  }

  draw() {
    const group = this.groups.find((one) => one.group === this.group) ?? this.groups[0];
    if (!group) return this.element.replaceChildren();
    if (this.element.children.length === 0) {
      const names = this.groups.map((one) => [one.group, one.group]);
      this.controls.replaceChildren(...(names.length > 1 ? [select("Group", names, group.group, (name) => { this.group = name; this.draw(); })] : []));
      this.element.replaceChildren(el("h2", {}, "Prefixes in memory"), this.controls, this.place);
    }
    const hits = hitsOf(this.hot, 500);
    const rows = group.prefixes.map((row) => ({ ...row, text: textOf(row.prefix), hits: hits(group.group, textOf(row.prefix)) }));
    const number = (title, value, show) => ({ title, value: (row) => value(row) ?? NaN, show: (row) => show(value(row) ?? NaN), number: true });
    const evictions = group.sampled_evictions > 0 ? `, and from ${count(group.sampled_evictions)} evictions of the last ${duration(group.evictions_seconds)}` : "";
    redrawn(this.place, table(`Of ${group.group}, from ${group.sampled >= group.entries ? "all" : "a sample of"} ${count(group.sampled)} entries${evictions}`, [
      { title: "Prefix", value: (row) => row.text, show: (row) => el("code", {}, row.text === "" ? "(none)" : brief(row.text)) },
      number("Entries", (row) => (row.share === null ? null : row.share * group.entries), (n) => count(Math.round(n))),
      number("Memory", (row) => row.bytes_share, percent),
      number("Hits", (row) => row.hits, percent),
      number("Median age", (row) => row.age_seconds.p50, duration),
      number("p90 age", (row) => row.age_seconds.p90, duration),
      number("Median time left", (row) => row.left_seconds.p50, duration),
      number("Evictions", (row) => row.evictions_share, percent),
      number("Median age at eviction", (row) => row.evicted_age_seconds.p50, duration),
    ], rows, this.sorted, () => this.draw()));
  }
}
