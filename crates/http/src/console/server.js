// What the page asks of the server. Addresses are relative, so that a proxy may put the console below a path.
import { duration } from "./elements.js";

/** Where the page is, without the credentials that its address may have: `fetch` refuses addresses with credentials. */
const HERE = `${location.origin}${location.pathname}`;

function at(path) {
  return new URL(path, HERE).href;
}

/** An answer that is no success: its problem's title and detail. */
export class Problem extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function problemOf(response) {
  const problem = await response.json().catch(() => ({}));
  return new Problem(response.status, [problem.title ?? `status ${response.status}`, problem.detail].filter(Boolean).join(": "));
}

export async function send(method, path) {
  const response = await fetch(at(path), { method });
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function json(path) {
  return (await send("GET", path)).json();
}

/** Routes that the user may not use. Asking again and again would count as refused commands, and fill the ACL log. */
const forbidden = new Set();

/** The same, but `null` where the route does not exist or the user may not use it. */
export async function jsonIfThere(path) {
  const [route] = path.split("?");
  if (forbidden.has(route)) return null;
  try {
    return await json(path);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 403) forbidden.add(route);
    return null;
  }
}

/** The first bytes of an answer, and whether there were more. */
export async function firstBytes(path, most) {
  const reader = (await send("GET", path)).body.getReader();
  const parts = [];
  let length = 0;
  while (length <= most) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    length += value.length;
  }
  await reader.cancel();
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return { bytes: all.subarray(0, most), more: length > most };
}

/** Milliseconds without a message until the numbers count as old. One comes each second. */
const SILENT = 5000;
/** Milliseconds until the stream is opened again: a browser does not notice a server that is gone. */
const DEAD = 20_000;

/**
 * Follows the live stream while the page can be seen: a browser has few connections for a server, and they are for pages in use.
 * `handlers`: `state(text, isOn)`, `sample(row)`, `stats(object)`, `event(object)`, `resumed()`.
 */
export function follow(handlers) {
  let source = null;
  let said = "connecting";
  let heard = Date.now();
  let opened = heard;
  const say = () => {
    const silent = Date.now() - heard;
    const old = silent < SILENT ? "" : `, no news for ${duration(Math.floor(silent / 1000))}`;
    handlers.state(said + old, said === "live" && !old);
  };
  const close = () => {
    source?.close();
    source = null;
  };
  const open = () => {
    if (source || document.hidden) return;
    opened = Date.now();
    source = new EventSource(at("v1/live"));
    source.onopen = () => {
      said = "live";
      // A stream ends when users change.
      forbidden.clear();
      handlers.resumed();
    };
    source.onerror = () => {
      const isOver = source?.readyState === EventSource.CLOSED;
      said = isOver ? "not connected" : "connecting again";
      if (isOver) {
        source = null;
        setTimeout(open, 5000);
      }
      say();
    };
    for (const name of ["sample", "stats", "event"]) {
      source.addEventListener(name, (message) => {
        heard = Date.now();
        handlers[name](JSON.parse(message.data));
        say();
      });
    }
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  setInterval(() => {
    if (document.hidden) return;
    if (source && Date.now() - Math.max(heard, opened) > DEAD) {
      said = "connecting again";
      close();
      open();
    }
    say();
  }, 1000);
  open();
}
