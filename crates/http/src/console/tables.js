// The views that are tables: groups with their sources and nodes, connections, events, settings.
import { badge, bytes, confirmed, count, duration, el, moment, percent, redrawn, table } from "./elements.js";
import { Prefixes } from "./prefixes.js";
import { json, jsonIfThere, send } from "./server.js";
import { WhatIf } from "./what_if.js";

const READS = ["hits", "negative_hits", "misses"];
/** Steps of the last ten minutes. */
const RECENT = 600;

export class Groups {
  constructor(state) {
    this.state = state;
    this.element = el("div");
    this.places = ["groups", "sources", "prefixes", "peers", "replicas"].map(() => el("div"));
    this.whatIf = new WhatIf();
    this.prefixes = new Prefixes();
    this.element.append(...this.places, this.prefixes.element, this.whatIf.element);
    this.sorted = { groups: {}, sources: {}, peers: {} };
    this.settings = [];
  }

  async open() {
    this.settings = (await jsonIfThere("v1/config"))?.settings ?? [];
    await this.ask();
    this.draw();
  }

  async ask() {
    const { samples } = this.state;
    await Promise.all([this.whatIf.ask(), this.prefixes.ask()]);
    // A node that shares nothing has no such route.
    this.peers = this.state.stats?.peers > 0 ? await jsonIfThere("v1/peers") : null;
    this.modes = await Promise.all(samples.groups.map((group) => jsonIfThere(`v1/groups/${encodeURIComponent(group)}/mode-rules`)));
    this.lost = (await jsonIfThere("v1/events"))?.events.filter((event) => event.kind === "source-lost") ?? [];
  }

  async tick(second) {
    if (second % 10 === 0) await this.ask();
    if (second % 2 === 0) this.draw();
  }

  draw() {
    const { samples, stats } = this.state;
    const redraw = () => this.draw();
    // The history keeps the first groups of the configuration; of the others there are only levels.
    const kept = new Set(samples.groups);
    const others = Object.keys(stats?.groups ?? {}).filter((name) => !kept.has(name));
    const rows = [...kept, ...others].map((name) => {
      const sum = (...names) => (kept.has(name) ? samples.recent(RECENT, names, name) : NaN);
      const reads = sum(...READS);
      const numbers = stats?.groups?.[name] ?? {};
      const circuit = Object.entries(numbers.source_circuit ?? {}).find(([, isNow]) => isNow === 1)?.[0];
      const fetches = sum("source_fetches");
      const nodes = Object.entries(numbers.source_node_up ?? {});
      const away = nodes.filter(([, isUp]) => isUp === 0).map(([address]) => address);
      return {
        name, reads, fetches, circuit,
        ratio: reads > 0 ? sum("hits", "negative_hits") / reads : NaN,
        stale: reads > 0 ? sum("stale_hits") / reads : NaN,
        evicted: sum("evictions"),
        errors: sum("source_errors"),
        mean: fetches > 0 ? sum("source_micros") / fetches / 1e6 : NaN,
        p99: samples.quantile(RECENT, 0.99, "source_seconds", name) ?? NaN,
        age: this.prefixes.age(name),
        used: kept.has(name) ? samples.latest(["used_bytes"], name) : numbers.cache_used_bytes,
        most: kept.has(name) ? samples.latest(["max_bytes"], name) : numbers.cache_max_bytes,
        entries: kept.has(name) ? samples.latest(["entries"], name) : numbers.cache_entries,
        up: (kept.has(name) ? samples.latest(["source_up"], name) : numbers.source_up) === 1,
        waiting: (numbers.source_in_flight ?? 0) + (numbers.source_waiting ?? 0),
        url: this.setting(name, "source"),
        lost: this.lost?.findLast((event) => event.group === name)?.text,
        away: away.length === 0 ? null : `${away.length} of ${nodes.length} nodes away: ${away.join(", ")}`,
      };
    });
    const [groups, sources, prefixes, peers, replicas] = this.places;
    const left = others.length === 0 ? "" : `. There is a history of the first ${kept.size} groups only`;
    redrawn(groups, el("h2", {}, "Groups"), table(`Reads and evictions of the last ten minutes${left}`, [
      { title: "Group", value: (row) => row.name },
      { title: "Entries", value: (row) => row.entries, show: (row) => count(row.entries), number: true },
      { title: "Memory", value: (row) => row.used, show: (row) => el("span", {}, el("progress", { max: row.most, value: row.used, "aria-label": `Memory of ${row.name}` }), ` ${bytes(row.used)} of ${bytes(row.most)}`) },
      { title: "Reads", value: (row) => row.reads, show: (row) => count(row.reads), number: true },
      { title: "Hits", value: (row) => row.ratio, show: (row) => percent(row.ratio), number: true },
      { title: "Out of date", value: (row) => row.stale, show: (row) => percent(row.stale), number: true },
      { title: "Evicted", value: (row) => row.evicted, show: (row) => count(row.evicted), number: true },
      { title: "Median age", value: (row) => row.age, show: (row) => duration(row.age), number: true },
    ], rows, this.sorted.groups, redraw));
    redrawn(sources, el("h2", {}, "Sources"), table(`Fetches of the last ten minutes${left}`, [
      { title: "Group", value: (row) => row.name },
      { title: "Source", value: (row) => row.url, show: (row) => el("code", {}, row.url ?? "–"), wide: true },
      { title: "State", value: (row) => row.up, show: (row) => [badge(row.up ? (row.away ? "warn" : "good") : "bad", row.up ? "up" : "down"), ...[row.away, row.up ? null : row.lost].filter(Boolean).map((note) => el("div", { class: "note" }, note))] },
      { title: "Circuit", value: (row) => row.circuit, show: (row) => (row.circuit ? badge(row.circuit === "closed" ? "good" : "bad", row.circuit) : "–") },
      { title: "Fetches", value: (row) => row.fetches, show: (row) => count(row.fetches), number: true },
      { title: "Errors", value: (row) => row.errors, show: (row) => el("span", { class: row.errors > 0 ? "bad" : undefined }, count(row.errors)), number: true },
      { title: "Mean", value: (row) => row.mean, show: (row) => duration(row.mean), number: true },
      { title: "p99", value: (row) => row.p99, show: (row) => (Number.isNaN(row.p99) ? "–" : `≤ ${duration(row.p99)}`), number: true },
      { title: "In flight", value: (row) => row.waiting, show: (row) => count(row.waiting), number: true },
    ], rows, this.sorted.sources, redraw));
    this.drawPrefixes(prefixes);
    this.drawPeers(peers, redraw);
    this.drawReplication(replicas);
  }

  setting(group, name) {
    const table = group === "default" ? null : `groups.${group}`;
    return this.settings.find((setting) => setting.name === name && setting.table === table)?.value?.replace(/^"|"$/g, "");
  }

  drawPrefixes(place) {
    const rows = this.settings.filter((setting) => /(^|\.)prefixes\./.test(setting.table ?? "") && setting.is_set);
    const modes = this.state.samples.groups.flatMap((group, index) =>
      (this.modes?.[index]?.rules ?? []).filter((rule) => rule.prefix !== "" || rule.mode !== "cache").map((rule) => ({ table: group, name: `mode of ${rule.prefix === "" ? "every key" : rule.prefix}`, value: rule.mode })));
    const all = [...rows, ...modes];
    if (all.length === 0) return place.replaceChildren();
    place.replaceChildren(el("h2", {}, "Policies"), table("Policies and modes of prefixes", [
      { title: "Where", value: (row) => row.table },
      { title: "What", value: (row) => row.name },
      { title: "Value", value: (row) => row.value },
    ], all));
  }

  drawPeers(place, redraw) {
    if (!this.peers) return place.replaceChildren();
    redrawn(place, el("h2", {}, "Peers"), table("Nodes that share keys with this one", [
      { title: "Node", value: (row) => row.name, show: (row) => `${row.name}${row.self ? " (this one)" : ""}` },
      { title: "Zone", value: (row) => row.zone },
      { title: "State", value: (row) => row.reachable, show: (row) => badge(row.reachable ? "good" : "bad", row.reachable ? "reachable" : "out") },
      { title: "Keys", value: (row) => row.share, show: (row) => percent(row.share), number: true },
      { title: "Reads", value: (row) => row.reads, show: (row) => count(row.reads), number: true },
      { title: "Failed reads", value: (row) => row.failed_reads, show: (row) => count(row.failed_reads), number: true },
      { title: "Untold changes", value: (row) => row.untold_changes, show: (row) => count(row.untold_changes), number: true },
    ], this.peers.peers, this.sorted.peers, redraw));
  }

  drawReplication(place) {
    const stats = this.state.stats ?? {};
    const role = Object.entries(stats.replication_role ?? {}).find(([, isNow]) => isNow === 1)?.[0];
    if (!role || role === "standalone") return place.replaceChildren();
    const replicas = Object.entries(stats.replication_replica_behind ?? {}).map(([name, behind]) => ({ name, behind }));
    place.replaceChildren(el("h2", {}, "Replication"), el("p", {}, "This node is a ", badge("good", role),
      ...(role === "replica" ? [" and its primary ", badge(stats.replication_link_up ? "good" : "bad", stats.replication_link_up ? "answers" : "does not answer"), `; its data is ${duration(stats.replication_lag_seconds)} old.`] : ["."])),
    ...(replicas.length === 0 ? [] : [table("Replicas", [
      { title: "Replica", value: (row) => row.name },
      { title: "Changes behind", value: (row) => row.behind, show: (row) => count(row.behind), number: true },
    ], replicas)]));
  }
}

/** Connections that are shown; the server finds and sorts among all. */
const CONNECTIONS = 200;
/** What the server calls the columns, from the left. */
const CONNECTION_SORTS = ["id", "address", "name", "user", "library", "age", "idle", "command"];

export class Connections {
  constructor(state) {
    this.state = state;
    this.sorted = { column: 0, down: false };
    this.search = el("input", { type: "search", oninput: () => this.askAgain(), placeholder: "address, name, user, library, command" });
    this.place = el("div");
    this.said = el("p", { class: "note", role: "status" });
    this.buffers = el("div");
    this.element = el("div", {}, el("div", { class: "bar" }, el("label", { class: "grow" }, "Filter", this.search)), this.said, this.place, this.buffers);
    this.page = null;
  }

  async open() {
    await this.ask();
  }

  async tick(second) {
    if (second % 3 === 0) await this.ask();
  }

  async ask() {
    const asked = {};
    this.asked = asked;
    const { column, down } = this.sorted;
    const page = await json(`v1/connections?count=${CONNECTIONS}&sort=${down ? "-" : ""}${CONNECTION_SORTS[column]}&match=${encodeURIComponent(this.search.value)}`);
    // Another filter or order may have been chosen.
    if (this.asked !== asked) return;
    this.page = page;
    this.draw();
  }

  /** The filter or the order has changed. */
  askAgain() {
    this.ask().catch((problem) => { this.said.textContent = problem.message; });
  }

  draw() {
    const rows = this.page?.connections ?? [];
    const { all = 0, redis = 0 } = this.page?.open ?? {};
    const { matching = 0 } = this.page ?? {};
    const part = matching > rows.length ? ` The first ${rows.length} of ${matching.toLocaleString("en")} are shown.` : matching < redis ? ` ${matching.toLocaleString("en")} match.` : "";
    const state = (row) => [row.blocked && "waits", row.subscriptions > 0 && `${row.subscriptions} subscriptions`, row.tracking && "tracks", row.in_transaction && "in MULTI", row.replica && "replica"].filter(Boolean).join(", ");
    redrawn(this.place, table(`Clients of the Redis protocol: ${redis.toLocaleString("en")}. Other connections: ${(all - redis).toLocaleString("en")}.${part}`, [
      { title: "Id", value: (row) => row.id, number: true },
      { title: "Address", value: (row) => row.address },
      { title: "Name", value: (row) => row.name },
      { title: "User", value: (row) => row.user },
      { title: "Library", value: (row) => row.library },
      { title: "Age", value: (row) => row.age_ms, show: (row) => duration(row.age_ms / 1000), number: true },
      { title: "Idle", value: (row) => row.idle_ms, show: (row) => duration(row.idle_ms / 1000), number: true },
      { title: "Last command", value: (row) => row.command ?? "", show: (row) => el("code", {}, row.command ?? "–") },
      { title: "State", show: state },
      { title: "Action", show: (row) => el("button", { type: "button", class: "danger", "aria-label": `End connection ${row.id}`, "data-sort": `end ${row.id}`, onclick: () => this.kill(row) }, "End") },
    ], rows, this.sorted, () => this.askAgain()));
    this.drawBuffers();
  }

  /** Which bytes count against `max-buffers`. */
  drawBuffers() {
    const { buffers_bytes: kinds = {}, buffers_max_bytes: most } = this.state.stats ?? {};
    const rows = Object.entries(kinds).map(([kind, held]) => ({ kind: kind.replaceAll("_", " "), held }));
    const used = rows.reduce((sum, row) => sum + row.held, 0);
    redrawn(this.buffers, table(`Buffers: ${bytes(used)} of ${bytes(most)} (max-buffers).`, [
      { title: "Kind", value: (row) => row.kind },
      { title: "Bytes", value: (row) => row.held, show: (row) => bytes(row.held), number: true },
    ], rows, {}, () => {}));
  }

  async kill(row) {
    if (!(await confirmed(`End the connection ${row.id} from ${row.address}? Its client may connect again.`, "End it"))) return;
    try {
      await send("DELETE", `v1/connections/${row.id}`);
      this.said.textContent = `Connection ${row.id} ends.`;
    } catch (problem) {
      this.said.textContent = problem.message;
    }
    await this.ask();
  }
}

export class Events {
  constructor(state) {
    this.state = state;
    this.faults = el("div");
    this.places = ["events", "slow"].map(() => el("div"));
    this.element = el("div");
    this.element.append(this.faults, ...this.places);
    this.sorted = {};
  }

  async open() {
    await this.askFaults();
    this.draw();
    await this.ask();
  }

  async tick(second) {
    if (second % 2 === 0) await this.askFaults();
    if (second % 5 === 0) await this.ask();
  }

  async ask() {
    // A user may have no right to see commands of others.
    this.slow = await jsonIfThere("v1/slow-log");
    this.drawSlow();
  }

  drawSlow() {
    const [, place] = this.places;
    if (!this.slow) return place.replaceChildren();
    const { entries, slower_than_micros: from } = this.slow;
    const caption = from === null ? "The slow log is off (slowlog-log-slower-than)." : `The latest ${entries.length.toLocaleString("en")} that took ${duration(from / 1e6)} or longer`;
    redrawn(place, el("h2", {}, "Slow Redis commands"), table(caption, [
      { title: "Time", value: (row) => row.at, show: (row) => el("time", { datetime: new Date(row.at).toISOString() }, moment(row.at)) },
      { title: "Took", value: (row) => row.micros, show: (row) => duration(row.micros / 1e6), number: true },
      { title: "Command", value: (row) => row.command.join(" "), show: (row) => el("code", {}, row.command.join(" ")), wide: true },
      { title: "Client", value: (row) => row.client, show: (row) => [row.client, row.client_name].filter(Boolean).join(" ") },
    ], entries, this.sorted, () => this.drawSlow()));
  }

  /** Faults that were ordered to rehearse an outage: who sees errors must see these first. */
  async askFaults() {
    const faults = (await jsonIfThere("v1/faults"))?.faults ?? [];
    if (faults.length === 0) return this.faults.replaceChildren();
    redrawn(this.faults, el("h2", {}, "Faults in force"), table("Ordered with POST /v1/faults, to rehearse an outage", [
      { title: "Where", value: (fault) => [fault.at, fault.group].filter(Boolean).join(" of ") },
      { title: "What", value: (fault) => [fault.kind, fault.delay ?? fault.jump].filter(Boolean).join(" ") },
      { title: "Share", value: (fault) => fault.share, show: (fault) => percent(fault.share), number: true },
      { title: "Struck", value: (fault) => fault.struck, show: (fault) => count(fault.struck), number: true },
      { title: "Ends in", value: (fault) => fault.seconds_left, show: (fault) => duration(fault.seconds_left), number: true },
      { title: "Action", show: (fault) => el("button", { type: "button", class: "danger", "aria-label": `End fault ${fault.id}`, "data-sort": `fault ${fault.id}`, onclick: () => this.endFault(fault) }, "End") },
    ], faults));
  }

  async endFault(fault) {
    await send("DELETE", `v1/faults?id=${fault.id}`).catch(() => {});
    await this.askFaults();
  }

  draw() {
    const events = [...this.state.events].reverse();
    const time = (event) => el("time", { datetime: new Date(event.at).toISOString() }, moment(event.at));
    redrawn(this.places[0], table("What happened, the latest first", [
      { title: "Time", show: time },
      { title: "Severity", show: (event) => badge(event.severity === "warning" ? "warn" : "good", event.severity) },
      { title: "Kind", value: (event) => event.kind },
      { title: "What", value: (event) => event.text, wide: true },
    ], events));
  }
}

export class Settings {
  constructor() {
    this.search = el("input", { type: "search", oninput: () => this.draw(), placeholder: "name, value, origin" });
    this.only = el("input", { type: "checkbox", onchange: () => this.draw() });
    this.place = el("div");
    this.element = el("div", {}, el("div", { class: "bar" }, el("label", { class: "grow" }, "Filter", this.search), el("label", {}, this.only, "Only what is set")), this.place);
    this.sorted = {};
    this.settings = [];
  }

  async open() {
    this.settings = (await json("v1/config")).settings;
    this.draw();
  }

  async tick() {}

  draw() {
    const wanted = this.search.value.toLowerCase();
    const is = (row) => [row.name, row.table, row.value, row.origin, row.section].join(" ").toLowerCase().includes(wanted) && (row.is_set || !this.only.checked);
    const name = (row) => (row.table ? `${row.table}.${row.name}` : row.name);
    redrawn(this.place, table("The settings as they are now, and where each comes from", [
      { title: "Setting", value: name, show: (row) => el("code", {}, name(row)) },
      { title: "Value", value: (row) => row.value ?? "", show: (row) => el("code", {}, row.value ?? "–"), wide: true },
      { title: "From", value: (row) => row.origin, show: (row) => (row.is_set ? el("b", {}, row.origin) : row.origin), wide: true },
      { title: "Changes by", value: (row) => (row.live ? "reload" : "restart") },
      { title: "What it does", value: (row) => row.help, wide: true },
    ], this.settings.filter(is), this.sorted, () => this.draw()));
  }
}
