// The console: which view is shown, and the live stream that moves it.
import { duration, el } from "./elements.js";
import { Keys } from "./keys.js";
import { Overview } from "./overview.js";
import { Samples } from "./samples.js";
import { follow, json, jsonIfThere } from "./server.js";
import { Connections, Events, Groups, Settings } from "./tables.js";

const TITLES = { overview: "Overview", groups: "Groups", connections: "Connections", keys: "Keys", events: "Events", settings: "Settings" };

/** What the views share. */
const state = { samples: new Samples(), stats: null, events: [] };
const views = {
  overview: new Overview(state),
  groups: new Groups(state),
  connections: new Connections(),
  keys: new Keys(state),
  events: new Events(state),
  settings: new Settings(),
};
const main = document.getElementById("main");
let shown = null;
let busy = false;

function failed(problem) {
  main.replaceChildren(el("p", { class: "bad", role: "alert" }, problem.message));
}

async function show() {
  const wanted = location.hash.slice(1);
  // The link that skips to the content is no view.
  if (wanted === "main") return;
  const name = Object.hasOwn(TITLES, wanted) ? wanted : "overview";
  if (shown === name) return;
  const isFirst = shown === null;
  shown = name;
  document.title = `${TITLES[name]} – Larder`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(el("h2", { class: "seen-by-readers" }, TITLES[name]), views[name].element);
  if (!isFirst) main.focus();
  if (name === "events") markSeen();
  await views[name].open().catch(failed);
  main.dataset.ready = name;
}

/** Warnings that came while other views were shown. */
let unseen = 0;
function markSeen() {
  unseen = 0;
  countWarnings();
}
function countWarnings() {
  const mark = document.getElementById("warnings");
  mark.hidden = unseen === 0;
  mark.textContent = unseen === 0 ? "" : String(unseen);
}

function sayState(text, isOn) {
  const live = document.getElementById("live");
  if (live.textContent !== text) live.textContent = text;
  live.className = `live ${isOn ? "on" : "off"}`;
}

async function tick(second) {
  // A slow answer delays the next tick's questions, and does not pile them up.
  if (busy) return;
  busy = true;
  try {
    await views[shown].tick(second);
  } catch (problem) {
    sayState(problem.message, false);
  } finally {
    busy = false;
  }
}

function sayStats(stats) {
  state.stats = stats;
  const version = stats.build_info?.version ?? "";
  const faults = Object.values(stats.faults ?? {}).reduce((sum, n) => sum + n, 0);
  const rehearsal = document.getElementById("faults");
  rehearsal.hidden = faults === 0;
  const said = faults === 0 ? "" : `rehearsal: ${faults} ${faults === 1 ? "fault" : "faults"} ordered`;
  if (rehearsal.textContent !== said) rehearsal.textContent = said;
  document.getElementById("version").textContent = `${version}, up for ${duration(stats.uptime_seconds)}`;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  for (const chart of views.overview.charts) chart.draw();
}

function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");
  setTheme(localStorage.getItem("theme") ?? system());
  dark.addEventListener("change", () => setTheme(localStorage.getItem("theme") ?? system()));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    if (theme === system()) localStorage.removeItem("theme");
    else localStorage.setItem("theme", theme);
    setTheme(theme);
  });
  addEventListener("hashchange", () => show());
}

async function start() {
  begin();
  try {
    await state.samples.load("1s");
    state.events = (await json("v1/events")).events;
    sayStats(await json("v1/stats"));
  } catch (problem) {
    failed(problem);
    return;
  }
  await show();
  follow({
    state: sayState,
    sample: (row) => {
      state.samples.add(row);
      tick(row[0]);
    },
    stats: sayStats,
    event: (event) => {
      if (state.events.some((known) => known.number === event.number)) return;
      state.events.push(event);
      if (shown === "events") views.events.draw();
      else if (event.severity === "warning") unseen += 1;
      countWarnings();
    },
    resumed: async () => {
      await state.samples.load("1s").catch(() => {});
      state.events = (await jsonIfThere("v1/events"))?.events ?? state.events;
      if (shown === "events") views.events.draw();
    },
  });
}

start();
