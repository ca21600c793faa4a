// The first view: the numbers of now, and charts of the last minutes, hours or day.
import { HeatMap, LineChart } from "./charts.js";
import { CommandTimes } from "./command_times.js";
import { bytes, choice, count, duration, el, percent, redrawn, select, table } from "./elements.js";
import { RANGES } from "./samples.js";
import { jsonIfThere } from "./server.js";

/** Redis commands by what they do: the end of their columns' name, and the words for it. */
const CLASSES = [["read", "Redis commands that read keys"], ["write", "Redis commands that write keys"],
  ["forwarded", "Redis commands that the source answers"], ["other", "Other Redis commands"]];
const READS = ["hits", "negative_hits", "misses"];
/** Seconds that the numbers of now look back. */
const RECENT = 10;

const shown = (command) => command.replace("|", " ").toUpperCase();

export class Overview {
  constructor(state) {
    this.state = state;
    this.range = "1s";
    this.group = "";
    this.timed = "";
    this.commandTimes = null;
    this.tiles = el("ul", { class: "tiles", "aria-label": "Now" });
    this.traffic = new LineChart("Requests/s", { show: count, stacked: true });
    this.ratio = new LineChart("Hit ratio", { show: percent, top: 1, note: "of the reads of groups" });
    this.memory = new LineChart("Memory", { show: bytes, stacked: true, inBytes: true, note: "by what uses it" });
    this.source = new LineChart("Source", { show: count, note: "fetches/s" });
    this.latency = new LineChart("Mean time of a fetch", { show: duration });
    this.entries = new LineChart("Entries/s", { show: count });
    this.refused = new LineChart("Errors and refusals/s", { show: count });
    this.network = new LineChart("Bytes/s", { show: bytes, inBytes: true });
    this.cpu = new LineChart("Cores used", { show: (n) => (n === null ? "–" : n.toFixed(2)) });
    this.heat = new HeatMap("How long requests, commands and fetches took");
    this.charts = [this.traffic, this.ratio, this.memory, this.source, this.latency, this.entries, this.refused, this.network, this.cpu, this.heat];
    this.controls = el("div", { class: "bar" });
    this.heatControls = el("div", { class: "bar" });
    this.commandsPlace = el("div");
    this.commands = [];
    this.sorted = { column: 2, down: true };
    this.element = el("div", {}, this.tiles, this.controls, el("div", { class: "charts" }, this.charts.slice(0, -1).map((chart) => chart.figure)),
      this.heatControls, el("div", { class: "charts" }, this.heat.figure), this.commandsPlace);
  }

  async open() {
    const { samples } = this.state;
    await samples.load(this.range);
    const groups = samples.groups;
    const redraw = (change) => async (value) => {
      change(value);
      await samples.load(this.range);
      this.draw();
    };
    this.controls.replaceChildren(choice("Time", "range", RANGES, this.range, redraw((range) => { this.range = range; })),
      ...(groups.length > 1 ? [select("Group", [["", "all"], ...groups.map((group) => [group, group])], this.group, redraw((group) => { this.group = group; }))] : []));
    await this.askCommands();
    this.drawTimed();
    this.draw();
  }

  async askCommands() {
    const before = this.commands.length;
    this.commands = (await jsonIfThere("v1/commands"))?.commands ?? [];
    this.drawCommands();
    // The list stays as it is while a user chooses.
    if (this.commands.length !== before && !this.heatControls.contains(document.activeElement)) this.drawTimed();
  }

  /** The list of what the heat map can show. */
  drawTimed() {
    const timed = [["", "HTTP requests"], ...CLASSES.map(([name, words]) => [`redis_${name}_seconds`, words]),
      ...this.state.samples.groups.map((group) => [`of:${group}`, `Fetches from the source of ${group}`]),
      ...this.commands.map(({ name }) => [`command:${name}`, `${shown(name)}, from now on`])];
    this.heatControls.replaceChildren(select("Durations of", timed, this.timed, (of) => {
      this.timed = of;
      this.commandTimes = of.startsWith("command:") ? new CommandTimes(of.slice("command:".length)) : null;
      this.drawHeat();
    }));
  }

  drawCommands() {
    if (this.commands.length === 0) return this.commandsPlace.replaceChildren();
    const took = (title, value) => ({ title, value: (row) => value(row) ?? NaN, show: (row) => duration(value(row)), number: true });
    redrawn(this.commandsPlace, el("h2", {}, "Redis commands"), table("Since the start, or the latest CONFIG RESETSTAT", [
      { title: "Command", value: (row) => shown(row.name) },
      { title: "Class", value: (row) => row.class },
      { title: "Calls", value: (row) => row.calls, show: (row) => count(row.calls), number: true },
      { title: "Failed", value: (row) => row.failed + row.rejected, show: (row) => count(row.failed + row.rejected), number: true },
      { title: "Received", value: (row) => row.received_bytes, show: (row) => bytes(row.received_bytes), number: true },
      { title: "Sent", value: (row) => row.sent_bytes, show: (row) => bytes(row.sent_bytes), number: true },
      took("Mean", (row) => (row.p50 === null ? null : row.seconds / row.calls)),
      took("Median", (row) => row.p50), took("p99", (row) => row.p99), took("p99.9", (row) => row.p999),
    ], this.commands, this.sorted, () => this.drawCommands()));
  }

  /** A second has passed. */
  async tick(second) {
    if (second % 10 === 0) await this.askCommands();
    await this.commandTimes?.ask(second);
    const step = { "1s": 1, "10s": 10, "1m": 60 }[this.range];
    if (step > 1 && second % step === 0) await this.state.samples.load(this.range);
    if (second % step === 0) return this.draw();
    this.drawTiles();
    if (this.commandTimes) this.drawHeat();
  }

  drawTiles() {
    const { samples } = this.state;
    const rate = (names) => samples.recent(RECENT, names) / RECENT;
    const reads = samples.recent(60, READS);
    const hits = samples.recent(60, ["hits", "negative_hits"]);
    const fetches = samples.recent(60, ["source_fetches"]);
    const kept = samples.groups;
    const others = Object.entries(this.state.stats?.groups ?? {}).filter(([group, numbers]) => !kept.includes(group) && numbers.source_up === 0);
    const down = [...kept.filter((group) => samples.latest(["source_up"], group) === 0), ...others.map(([group]) => group)];
    const errors = rate(["http_5xx", "redis_errors", "memcached_errors", "throttled", "overload_refused", "connections_refused"]);
    const slowest = (...names) => duration(samples.quantile(60, 0.99, names));
    const tile = (value, what, isBad) => el("li", { class: isBad ? "bad" : undefined }, el("span", { class: "value" }, value), el("span", { class: "what" }, what));
    this.tiles.replaceChildren(
      tile(count(rate(["http_requests", "redis_commands", "memcached_commands"])), "requests/s"),
      tile(reads > 0 ? percent(hits / reads) : "–", "hits, last minute"),
      tile(slowest("http_seconds"), "p99 of HTTP requests, last minute"),
      tile(slowest(...CLASSES.map(([name]) => `redis_${name}_seconds`)), "p99 of Redis commands, last minute"),
      tile(down.length > 0 ? "lost" : "up", down.length > 0 ? `source of ${down.join(", ")}` : "sources", down.length > 0),
      tile(fetches > 0 ? duration(samples.recent(60, ["source_micros"]) / fetches / 1e6) : "–", "mean fetch, last minute"),
      tile(bytes(samples.latest(["used_bytes"])), `of ${bytes(samples.latest(["max_bytes"]))} for entries`),
      tile(count(samples.latest(["http_connections", "redis_connections", "memcached_connections"])), "connections"),
      tile(count(errors), "errors and refusals/s", errors > 0));
  }

  draw() {
    this.drawTiles();
    const { samples } = this.state;
    const { range, group } = this;
    const times = samples.times(range);
    const lines = (chart, series) => chart.show({ times, series: series.map(([name, values]) => ({ name, values })) });
    const rate = (...names) => samples.rate(range, names, group);
    lines(this.traffic, [["HTTP", rate("http_requests")], ["Redis protocol", rate("redis_commands")],
      ["memcached", rate("memcached_commands")]]);
    lines(this.ratio, [["hits", samples.ratio(range, ["hits", "negative_hits"], READS, group)], ["out of date", samples.ratio(range, ["stale_hits"], READS, group)]]);
    const level = (...names) => samples.sum(range, names, group);
    lines(this.memory, [["values", level("segment_bytes")], ["large values", level("large_bytes")], ["index", level("index_bytes")],
      ["eviction, expiry, tags", level("policy_bytes")], ["buffers", level("buffer_bytes")], ...(group ? [] : [["rest of the process", this.rest(range)]])]);
    lines(this.source, [["fetches", rate("source_fetches")], ["errors", rate("source_errors")]]);
    const micros = samples.ratio(range, ["source_micros"], ["source_fetches"], group);
    lines(this.latency, [["fetch", micros.map((n) => (n === null ? null : n / 1e6))]]);
    lines(this.entries, [["stored", rate("insertions")], ["evicted", rate("evictions")], ["expired", rate("expirations")]]);
    lines(this.refused, [["HTTP 5xx", rate("http_5xx")], ["HTTP 4xx", rate("http_4xx")],
      ["Redis and memcached errors", rate("redis_errors", "memcached_errors")],
      ["throttled", rate("throttled")], ["overload", rate("overload_refused")], ["connections", rate("connections_refused")]]);
    lines(this.network, [["received", rate("received_bytes")], ["sent", rate("sent_bytes")]]);
    lines(this.cpu, [["cores", rate("cpu_seconds")]]);
    this.drawHeat();
  }

  /** Resident memory that the other lines do not have. */
  rest(range) {
    const { samples } = this.state;
    const known = samples.sum(range, ["segment_bytes", "large_bytes", "index_bytes", "policy_bytes", "buffer_bytes"]);
    return samples.sum(range, ["resident_bytes"]).map((all, at) => (all === null ? null : Math.max(0, all - known[at])));
  }

  drawHeat() {
    if (this.commandTimes) return this.heat.show(this.commandTimes.data);
    const { samples } = this.state;
    const of = this.timed.startsWith("of:") ? ["source_seconds", this.timed.slice(3)] : [this.timed || "http_seconds", ""];
    this.heat.show({ times: samples.times(this.range), ...samples.histogram(this.range, ...of) });
  }
}
