// The key browser: keys by pattern, what is known of one, and its value. And the hot keys.
import { badge, bytes, count, duration, el, percent, redrawn, select, table } from "./elements.js";
import { hitsOf } from "./prefixes.js";
import { firstBytes, json, jsonIfThere } from "./server.js";
import { brief, formsOf, keyOf, textOf, visible } from "./values.js";

/** Bytes of a value that are shown. */
const SHOWN = 64 * 1024;

export class Keys {
  constructor(state) {
    this.state = state;
    this.group = "default";
    this.measure = "by_reads";
    this.pattern = el("input", { type: "search", value: "*", "aria-describedby": "pattern-note" });
    this.list = el("ul", { class: "keys" });
    this.said = el("p", { class: "note", role: "status" });
    this.more = el("button", { type: "button", hidden: true, onclick: () => this.search(false) }, "Look further");
    this.detail = el("section", { class: "card", "aria-label": "Key" }, el("p", { class: "note" }, "Choose a key, or type one in full and press Show."));
    this.hot = el("div");
    this.groupChoice = el("span");
    const form = el("form", { class: "bar", role: "search", onsubmit: (event) => { event.preventDefault(); this.search(true); } },
      this.groupChoice, el("label", { class: "grow" }, "Pattern", this.pattern),
      el("button", { class: "main" }, "Search"),
      el("button", { type: "button", onclick: () => this.show(keyOf(this.pattern.value)) }, "Show"));
    this.element = el("div", {}, form, el("p", { class: "note", id: "pattern-note" }, "Search lists keys in memory, or of the store on this machine, that match a glob such as user:*. It reads nothing from a source."),
      el("div", { class: "two" }, el("section", { "aria-label": "Keys found" }, this.said, this.list, this.more), this.detail), this.hot);
  }

  base(what) {
    return this.group === "default" ? `v1/${what}` : `v1/groups/${encodeURIComponent(this.group)}/${what}`;
  }

  async open() {
    // There is a history of the first groups only, and there are keys in all of them.
    const groups = [...new Set([...this.state.samples.groups, ...Object.keys(this.state.stats?.groups ?? {})])];
    if (groups.length > 1) {
      this.groupChoice.replaceChildren(select("Group", groups.map((group) => [group, group]), this.group, (group) => {
        this.group = group;
        this.search(true);
      }));
    }
    await this.askHotKeys();
  }

  async tick(second) {
    if (second % 5 === 0) await this.askHotKeys();
  }

  async search(isNew) {
    if (isNew) {
      this.list.replaceChildren();
      this.cursor = "0";
      this.wanted = this.pattern.value || "*";
    }
    // A later search takes the place of one that is under way.
    const search = {};
    this.latest = search;
    this.more.hidden = true;
    this.said.textContent = "Searching.";
    try {
      // A page of the tier has the matches among so many keys: a rare match takes several.
      let found = 0;
      for (let page = 0; page < 50 && found < 100; page += 1) {
        const answer = await json(`${this.base("keys")}?count=2000&cursor=${this.cursor}&match=${encodeURIComponent(this.wanted)}`);
        if (this.latest !== search) return;
        this.list.append(...answer.keys.map((listed) => this.item(keyOf(listed))));
        found += answer.keys.length;
        this.cursor = answer.cursor;
        if (this.cursor === "0") break;
      }
      this.more.hidden = this.cursor === "0";
      this.said.textContent = `${this.list.children.length.toLocaleString("en")} keys${this.more.hidden ? "" : " so far"}.`;
    } catch (problem) {
      if (this.latest === search) this.said.textContent = problem.message;
    }
  }

  item(key) {
    const button = el("button", { type: "button", class: "mono", onclick: () => {
      this.list.querySelector("[aria-current]")?.removeAttribute("aria-current");
      button.setAttribute("aria-current", "true");
      this.show(key);
    } }, brief(key.text));
    return el("li", {}, button);
  }

  async show(key) {
    const name = brief(key.text, 2000);
    const asked = {};
    this.asked = asked;
    let known;
    try {
      if (isUnaskable(key.path)) throw new Error("A browser cannot ask for this key. LARDER.EXPLAIN and GET of the Redis protocol can.");
      known = await json(`${this.base("explain")}/${key.path}`);
      if (this.asked !== asked) return;
    } catch (problem) {
      if (this.asked !== asked) return;
      this.detail.replaceChildren(el("h3", { class: "mono" }, name), el("p", { class: "bad" }, problem.message));
      return;
    }
    const facts = el("dl");
    const tell = (now) => facts.replaceChildren(...factsOf(now).flatMap(([name, fact]) => [el("dt", {}, name), el("dd", {}, fact)]));
    tell(known);
    const value = el("div");
    const read = el("button", { type: "button", class: "main", onclick: () => this.read(key, value, tell) }, "Read the value");
    this.detail.replaceChildren(el("h3", { class: "mono" }, name), facts,
      el("div", { class: "bar" }, read, el("span", { class: "note" }, "a read like any client's: it counts, and may ask the source")), value);
  }

  /** `tell` shows what is known of the key after the read. */
  async read(key, place, tell) {
    try {
      const { bytes: raw, more } = await firstBytes(`${this.base("kv")}/${key.path}`, SHOWN);
      json(`${this.base("explain")}/${key.path}`).then(tell, () => {});
      const forms = formsOf(raw, more);
      const shown = el("pre", { class: "value", tabindex: 0, role: "region", "aria-label": "Value" });
      const draw = (form) => { shown.textContent = forms[form]; };
      const first = Object.keys(forms)[0];
      draw(first);
      place.replaceChildren(el("div", { class: "bar" }, select("Show as", Object.keys(forms).map((form) => [form, form]), first, draw),
        el("span", { class: "note" }, more ? `the first ${bytes(raw.length)}` : bytes(raw.length))), shown);
    } catch (problem) {
      place.replaceChildren(el("p", { class: "bad" }, problem.message));
    }
  }

  async askHotKeys() {
    const answer = await jsonIfThere(`v1/hot-keys?count=${ROWS}`);
    if (answer === null) return this.hot.replaceChildren();
    if (this.hot.children.length === 0) {
      const choose = (measure) => {
        this.measure = measure;
        this.askHotKeys();
      };
      this.hotTables = el("div");
      this.hot.replaceChildren(el("h2", {}, "Hot keys"), select("By", MEASURES.map(([measure, name]) => [measure, name]), this.measure, choose), this.hotTables);
    }
    const [measure, title, show] = MEASURES.find(([name]) => name === this.measure);
    const columns = (of, name) => [
      { title: name, value: (row) => textOf(row[of]), wide: true, show: (row) => (of === "key" && row.group === this.group ? el("button", { type: "button", class: "mono", "data-sort": `hot ${textOf(row.key)}`, onclick: () => this.show(keyOf(row.key)) }, brief(textOf(row.key))) : el("code", {}, brief(textOf(row[of])) || "(none)")) },
      { title: title[0].toUpperCase() + title.slice(1), value: (row) => row[COUNTS[measure]], show: (row) => show(row[COUNTS[measure]]), number: true },
      { title: "Share", value: (row) => row.share, show: (row) => percent(row.share), number: true },
    ];
    // On a phone, the last column is the one that is not seen.
    const group = { title: "Group", value: (row) => row.group };
    const ratio = hitsOf(answer, ROWS);
    const hits = (row) => ratio(row.group, textOf(row.prefix));
    const ofPrefixes = measure === "by_reads" ? [{ title: "Hits", value: hits, show: (row) => percent(hits(row)), number: true }] : [];
    const time = duration(answer.seconds);
    const prefixes = answer.prefixes?.[measure] ?? [];
    redrawn(this.hotTables, table(`Keys that took the most in the last ${time}`, [...columns("key", "Key"), group], answer[measure] ?? []),
      ...(prefixes.length === 0 ? [] : [table(`Prefixes that took the most in the last ${time}`, [...columns("prefix", "Prefix"), ...ofPrefixes, group], prefixes)]));
  }
}

/** What is known of a key, by name. */
function factsOf(known) {
  const millis = (n) => (n === null || n === undefined ? "–" : duration(n / 1000));
  return [
    ["In memory", known.held === "nothing" ? "nothing" : [`${known.held} `, badge(known.state === "stale" ? "warn" : "good", known.state)]],
    ["A read now", known.next.replace(/^a read /, "")],
    ...(known.why === "-" ? [] : [["Why", known.why]]),
    ["Size in memory", known.bytes === null ? "–" : bytes(known.bytes)],
    ["Age", millis(known.age_ms)],
    ["Expires in", known.left_ms === null && known.held !== "nothing" ? "never" : millis(known.left_ms)],
    ["Served for", millis(known.served_for_ms)],
    ["Served without source", millis(known.served_if_source_fails_for_ms)],
    ["Tags", visible(known.tags.join(", ")) || "–"],
    ["Mode", known.mode],
    ["Policy", known.policy],
    ["Source", known.source],
  ];
}

/** Browsers take `.` and `..` out of addresses, and an address has less than 64 KiB. */
function isUnaskable(path) {
  return path === "." || path === ".." || path.length > 65_000;
}

/** Rows of each list that is asked for. */
const ROWS = 50;
/** What hot keys are counted by. */
const MEASURES = [["by_reads", "reads", count], ["by_bytes", "bytes", bytes], ["by_misses", "misses", count], ["by_source_time", "time at the source", duration]];
const COUNTS = { by_reads: "reads", by_bytes: "bytes", by_misses: "misses", by_source_time: "source_seconds" };
