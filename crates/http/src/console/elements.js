// Elements, and numbers as people read them. Texts from a server only ever become text nodes.

/** An element with attributes, listeners (`onclick`) and children: elements, texts, or nothing. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 1234567 as `1.23 M`. */
export function count(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const size = Math.abs(n);
  if (size >= 1e9) return `${digits(n / 1e9)} G`;
  if (size >= 1e6) return `${digits(n / 1e6)} M`;
  if (size >= 1e4) return `${digits(n / 1e3)} k`;
  return size >= 100 || Number.isInteger(n) ? whole.format(n) : digits(n);
}

function digits(n) {
  return n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2);
}

export function bytes(n) {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) {
    n /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? whole.format(n) : digits(n)} ${units[unit]}`;
}

/** A share. Only 0 and 1 read `0 %` and `100 %`: one miss in a million is not none. */
export function percent(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  if (share === 0 || share === 1) return `${share * 100} %`;
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  if (share < 1 && share > 0.99995) return "> 99.99 %";
  return `${(share * 100).toFixed(share > 0.995 ? 2 : 1)} %`;
}

/** Seconds as `340 µs`, `1.20 ms`, `3 min`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds === 0) return "0";
  if (seconds < 0.001) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function clock(seconds, withSeconds = true) {
  const options = { hour: "2-digit", minute: "2-digit", second: withSeconds ? "2-digit" : undefined, hourCycle: "h23" };
  return new Date(seconds * 1000).toLocaleTimeString("en", options);
}

/** A day and a time, as `2026-11-23 14:42:42`. */
export function moment(millis) {
  const at = new Date(millis);
  const two = (n) => String(n).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(millis / 1000)}`;
}

export function badge(kind, text) {
  return el("span", { class: `badge ${kind}` }, text);
}

/** A group of radio buttons; `changed` gets the value. */
export function choice(legend, name, options, chosen, changed) {
  const radios = options.map(([value, text]) =>
    el("label", {}, el("input", { type: "radio", name, value, checked: value === chosen, onchange: () => changed(value) }), text));
  return el("fieldset", { class: "choice" }, el("legend", { class: "seen-by-readers" }, legend), radios);
}

export function select(label, options, chosen, changed) {
  const list = el("select", { onchange: () => changed(list.value) },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)));
  return el("label", {}, label, list);
}

/** Characters of a cell that are not broken into lines. */
const LONG = 24;

/**
 * A table that sorts by its headings. A column: `{ title, value(row), show?(row), number?, wide? }`; without `value` it does not sort.
 * `sorted` is kept by the caller so that the order outlives a redraw: `{ column, down }`.
 */
export function table(caption, columns, rows, sorted, redraw) {
  const by = columns[sorted?.column]?.value;
  const ordered = by ? [...rows].sort((one, two) => compare(by(one), by(two)) * (sorted.down ? -1 : 1)) : rows;
  const heading = ({ title, value, number }, index) => {
    const is = sorted?.column === index;
    const order = is ? (sorted.down ? "descending" : "ascending") : undefined;
    const sort = () => {
      sorted.down = is ? !sorted.down : Boolean(number);
      sorted.column = index;
      redraw();
    };
    const arrow = is ? (sorted.down ? " ↓" : " ↑") : "";
    const inside = sorted && value ? el("button", { type: "button", onclick: sort, "data-sort": title }, title + arrow) : title;
    return el("th", { scope: "col", class: number ? "number" : undefined, "aria-sort": order }, inside);
  };
  // A long name would take the room of all other columns.
  const isWide = (row, { value, wide }) => wide || (value && String(value(row) ?? "").length > LONG);
  const cell = (row) => (column) =>
    el("td", { class: column.number ? "number" : isWide(row, column) ? "wide" : undefined }, column.show ? column.show(row) : String(column.value(row) ?? ""));
  // A caption within the table would scroll with it.
  return el("div", {}, el("p", { class: "caption" }, caption), el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    el("table", { "aria-label": caption }, el("thead", {}, el("tr", {}, columns.map(heading))),
      el("tbody", {}, ordered.map((row) => el("tr", {}, columns.map(cell(row))))))));
}

function compare(one, two) {
  return typeof one === "number" && typeof two === "number" ? one - two : String(one ?? "").localeCompare(String(two ?? ""));
}

/** Puts `children` into a place of a view. The focus goes back where it was, by its `data-sort`, and tables stay scrolled. */
export function redrawn(place, ...children) {
  const sort = place.contains(document.activeElement) ? document.activeElement.dataset.sort : undefined;
  const scrolled = [...place.querySelectorAll(".scroll")].map((table) => table.scrollLeft);
  place.replaceChildren(...children);
  place.querySelectorAll(".scroll").forEach((table, index) => { table.scrollLeft = scrolled[index] ?? 0; });
  if (sort) [...place.querySelectorAll("[data-sort]")].find((button) => button.dataset.sort === sort)?.focus();
}

/** Asks before something that cannot be undone. */
export function confirmed(question, action) {
  return new Promise((resolve) => {
    const box = el("dialog", { "aria-label": question, onclose: () => { box.remove(); resolve(box.returnValue === "yes"); } },
      el("p", {}, question),
      el("div", { class: "bar" },
        el("button", { type: "button", onclick: () => box.close("no") }, "Cancel"),
        el("button", { type: "button", class: "danger", onclick: () => box.close("yes") }, action)));
    document.body.append(box);
    box.showModal();
  });
}
