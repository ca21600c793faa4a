// The console: which view is shown, and the live stream that moves it.
import { duration, el } from "./elements.js";
import { Keys } from "./keys.js";
import { Overview } from "./overview.js";
import { Samples } from "./samples.js";
import { follow, json, jsonIfThere } from "./server.js";
import { Connections, Events, Groups, Settings } from "./tables.js";

const TITLES = { overview: "Overview", groups: "Groups", connections: "Connections", keys: "Keys", events: "Events", settings: "Settings" };
/** Seconds until a view that could not be opened is tried again. */
const AGAIN = 5;
/** Events that are kept: those of the server, and of the one that ran before. */
const MOST_EVENTS = 1024;

/** What the views share. */
const state = { samples: new Samples(), stats: null, events: [] };
const views = {
  overview: new Overview(state),
  groups: new Groups(state),
  connections: new Connections(state),
  keys: new Keys(state),
  events: new Events(state),
  settings: new Settings(),
};
const main = document.getElementById("main");
/** What keeps the view from being what it should be. */
const trouble = el("p", { class: "bad", role: "alert", hidden: true });
let shown = null;
/** Whether the view has what it needs: `true`, `false`, or `null` if the user may not see it, or it is asked for already. */
let isOpen = null;
let busy = false;

function say(problem) {
  const text = problem?.message ?? "";
  if (trouble.textContent !== text) trouble.textContent = text;
  trouble.hidden = text === "";
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
  say(null);
  main.replaceChildren(el("h2", { class: "seen-by-readers" }, TITLES[name]), trouble, views[name].element);
  if (!isFirst) main.focus();
  if (name === "events") markSeen();
  isOpen = null;
  await open(name);
  main.dataset.ready = name;
}

async function open(name) {
  const problem = await views[name].open().then(() => null, (problem) => problem);
  // Another view may be shown by now.
  if (shown !== name) return;
  isOpen = problem === null ? true : problem.status === 403 ? null : false;
  say(problem);
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
  main.classList.toggle("old", text.includes("no news"));
}

async function tick(second) {
  // A slow answer delays the next tick's questions, and does not pile them up.
  if (busy || isOpen === null) return;
  busy = true;
  const name = shown;
  try {
    if (isOpen) {
      await views[name].tick(second);
      if (shown === name) say(null);
    } else if (second % AGAIN === 0) {
      await open(name);
    }
  } catch (problem) {
    if (shown === name) say(problem);
  } finally {
    busy = false;
  }
}

function sayStats(stats) {
  const build = JSON.stringify(stats.build_info);
  // Another Larder needs the page that it brings.
  if (state.stats && build !== JSON.stringify(state.stats.build_info)) location.reload();
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

/** The theme that was chosen by hand. A browser may keep nothing for a page. */
const chosenTheme = {
  get: () => {
    try {
      return localStorage.getItem("theme");
    } catch {
      return null;
    }
  },
  set: (theme) => {
    try {
      if (theme === null) localStorage.removeItem("theme");
      else localStorage.setItem("theme", theme);
    } catch {
      // It lasts as long as the page.
    }
  },
};

function begin() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const system = () => (dark.matches ? "dark" : "light");
  setTheme(chosenTheme.get() ?? system());
  dark.addEventListener("change", () => setTheme(chosenTheme.get() ?? system()));
  document.getElementById("theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    chosenTheme.set(theme === system() ? null : theme);
    setTheme(theme);
  });
  addEventListener("hashchange", () => show());
}

/** What the first view needs. `null`, or why it is not there. */
async function load() {
  try {
    await state.samples.load("1s");
    state.events = (await json("v1/events")).events;
    sayStats(await json("v1/stats"));
    return null;
  } catch (problem) {
    return problem;
  }
}

async function start() {
  begin();
  for (let problem = await load(); problem !== null; problem = await load()) {
    say(problem);
    main.replaceChildren(trouble);
    sayState("not connected", false);
    // Who may not look may not look later.
    if (problem.status === 401 || problem.status === 403) return;
    await new Promise((resolve) => setTimeout(resolve, AGAIN * 1000));
  }
  await show();
  follow({
    state: sayState,
    sample: (row) => {
      state.samples.add(row);
      tick(row[0]);
    },
    stats: sayStats,
    event: (event) => addEvents([event]),
    resumed: async () => {
      try {
        sayStats(await json("v1/stats"));
        await state.samples.load("1s");
        addEvents((await jsonIfThere("v1/events"))?.events ?? []);
      } catch {
        // The stream ends as well, and begins again.
      }
    },
  });
}

/** Adds those that are new. After a restart the numbers begin again, and what was before stays. */
function addEvents(events) {
  const same = (one, other) => one.number === other.number && one.at === other.at;
  const fresh = events.filter((event) => !state.events.some((known) => same(known, event)));
  if (fresh.length === 0) return;
  state.events = [...state.events, ...fresh].sort((one, two) => one.at - two.at).slice(-MOST_EVENTS);
  if (fresh.some((event) => event.kind === "reload") && shown === "settings") open("settings");
  if (shown === "events") views.events.draw();
  else unseen += fresh.filter((event) => event.severity === "warning").length;
  countWarnings();
}

start();
