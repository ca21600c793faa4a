// What if the tier were larger or smaller: the hit ratio at each size, and the size for a wanted one.
import { LineChart } from "./charts.js";
import { bytes, count, duration, el, percent, redrawn, select, table } from "./elements.js";
import { jsonIfThere } from "./server.js";

const RATIOS = [0.8, 0.9, 0.95, 0.99];

export class WhatIf {
  constructor() {
    this.element = el("section", { "aria-label": "Other sizes" });
    this.group = "default";
    this.wanted = 0.95;
    this.chart = new LineChart("Hit ratio at other sizes", { show: percent, top: 1, note: "estimated", showPlace: (factor) => `${factor} ×` });
    this.place = el("div");
    this.controls = el("div", { class: "bar" });
  }

  async ask() {
    const answer = await jsonIfThere(`v1/what-if?hit-ratio=${this.wanted}`);
    this.groups = answer?.groups ?? [];
    this.draw();
  }

  draw() {
    if (this.groups.length === 0) return this.element.replaceChildren();
    const group = this.groups.find((one) => one.group === this.group) ?? this.groups[0];
    if (this.element.children.length === 0) {
      const names = this.groups.map((one) => [one.group, one.group]);
      const ratios = RATIOS.map((ratio) => [String(ratio), percent(ratio)]);
      this.controls.replaceChildren(
        ...(names.length > 1 ? [select("Group", names, group.group, (name) => { this.group = name; this.draw(); })] : []),
        select("Wanted hit ratio", ratios, String(this.wanted), (ratio) => { this.wanted = Number(ratio); this.ask(); }));
      this.element.replaceChildren(el("h2", {}, "Other sizes"), this.controls, el("div", { class: "charts" }, this.chart.figure), this.place);
    }
    const { sizes } = group;
    this.chart.show({
      times: sizes.map((size) => size.factor),
      series: [["policy", "hit_ratio"], ["LRU", "lru_hit_ratio"]].map(([name, of]) => ({ name, values: sizes.map((size) => (group.reads > 0 ? size[of] : null)) })),
    });
    const caption = group.reads === 0 ? "Nothing has been read yet"
      : `Sizes of ${group.group}, from ${count(group.reads)} reads in ${duration(group.seconds)}`;
    redrawn(this.place, el("p", { role: "status" }, this.advice(group)), table(caption, [
      { title: "Size", value: (size) => `${size.factor} ×` },
      { title: "Memory", value: (size) => bytes(size.max_memory), number: true },
      ...(group.max_keys === null ? [] : [{ title: "Keys", value: (size) => count(size.max_keys), number: true }]),
      { title: "Hits", value: (size) => percent(size.hit_ratio), number: true },
      { title: "With LRU", value: (size) => percent(size.lru_hit_ratio), number: true },
    ], group.reads === 0 ? [] : sizes));
  }

  advice({ reads, wanted, sizes }) {
    if (reads === 0) return "There is no advice before there are reads.";
    const ratio = percent(wanted.hit_ratio);
    const largest = sizes.at(-1);
    if (wanted.factor === null) return `At ${largest.factor} times the size the hit ratio is ${percent(largest.hit_ratio)}: ${ratio} is out of reach.`;
    const keys = wanted.max_keys === null ? "" : ` and ${count(wanted.max_keys)} keys`;
    const most = wanted.factor <= sizes[0].factor ? "at most " : "about ";
    return `${ratio} need ${most}${wanted.factor.toFixed(2)} times the size: ${bytes(wanted.max_memory)}${keys}.`;
  }
}
