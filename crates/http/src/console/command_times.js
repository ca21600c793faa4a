// How long the calls of one Redis command take, second by second, from the moment it was chosen: the server keeps only sums since its start.
import { jsonIfThere } from "./server.js";

/** Seconds that are kept. */
const KEPT = 600;

export class CommandTimes {
  #name;
  #before = null;
  /** As the heat map takes it. */
  data = { times: [], ends: [], rows: [] };

  constructor(name) {
    this.#name = name;
  }

  /** Adds what has happened until this second. */
  async ask(second) {
    const page = await jsonIfThere(`v1/commands/${encodeURIComponent(this.#name)}`);
    if (!page) return;
    const now = page.durations.map(({ calls }) => calls);
    const before = this.#before;
    this.#before = now;
    if (!before) return;
    const { times, rows } = this.data;
    times.push(second);
    // The server may have started again.
    rows.push(now.map((calls, bucket) => (calls < before[bucket] ? calls : calls - before[bucket])));
    if (times.length > KEPT) [times, rows].forEach((list) => list.shift());
    this.data = { times, ends: page.durations.map(({ up_to }) => up_to), rows };
  }
}
