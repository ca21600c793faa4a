// What the page asks of the server. Addresses are relative, so that a proxy may put the console below a path.

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

/** The same, but `null` where the route does not exist or the user may not use it. */
export async function jsonIfThere(path) {
  try {
    return await json(path);
  } catch (problem) {
    if (problem instanceof Problem) return null;
    throw problem;
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

/**
 * Follows the live stream while the page can be seen: a browser has few connections for a server, and they are for pages in use.
 * `handlers`: `state(text, isOn)`, `sample(row)`, `stats(object)`, `event(object)`, `resumed()`.
 */
export function follow(handlers) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(at("v1/live"));
    source.onopen = () => {
      handlers.state("live", true);
      handlers.resumed();
    };
    source.onerror = () => {
      handlers.state(source?.readyState === EventSource.CLOSED ? "not connected" : "connecting again", false);
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        setTimeout(open, 5000);
      }
    };
    for (const name of ["sample", "stats", "event"]) {
      source.addEventListener(name, (message) => handlers[name](JSON.parse(message.data)));
    }
  };
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      source?.close();
      source = null;
    } else {
      open();
    }
  });
  open();
}
