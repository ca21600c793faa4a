// Values and keys as people read them: nothing invisible, nothing invented.

/** Characters of a key that are shown in a list. */
const LONGEST = 200;
/** A key as the server lists it: its bytes in a path, and what people see. */
export function keyOf(listed) {
  if (typeof listed === "string") return { path: encodeURIComponent(listed), text: listed };
  const raw = Uint8Array.from(atob(listed.base64), (character) => character.charCodeAt(0));
  const path = [...raw].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("");
  return { path, text: path };
}

export function textOf(listed) {
  return keyOf(listed).text;
}

/** Control characters, and what changes the direction of the text around it or cannot be seen. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}]/gu;

/** A text in which each unseen character has its number: `\n`, `\u202e`. */
export function visible(text) {
  const short = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
  const number = (character) => {
    const code = character.codePointAt(0);
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  };
  return text.replace(UNSEEN, (character) => short[character] ?? number(character));
}

/** The same, cut where it is too long for a line. */
export function brief(text, longest = LONGEST) {
  const seen = visible(text);
  // Spaces at an end would not be seen.
  const shown = seen === seen.trim() ? seen : `"${seen}"`;
  return shown.length <= longest ? shown : `${shown.slice(0, longest)}… (${text.length.toLocaleString("en")} characters)`;
}

/** A value as JSON if it is, as text if it is, and as a dump of its bytes. `isCut`: these are only its first bytes. */
export function formsOf(raw, isCut) {
  const forms = {};
  try {
    // The last character may be cut as well.
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(raw, { stream: isCut });
    try {
      JSON.parse(text);
      forms.JSON = indented(text);
    } catch {
      // It is no JSON.
    }
    forms.text = text;
  } catch {
    // It is no text.
  }
  forms.hex = hex(raw);
  return forms;
}

/**
 * JSON with a line for each member. Its numbers, strings and members are those of the value, which `JSON.parse` would round, decode
 * and drop.
 */
function indented(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(Math.min(depth, 40))}`;
  const tokens = json.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  return tokens.map((token, index) => {
    if (token === "[" || token === "{") {
      depth += 1;
      return ["]", "}"].includes(tokens[index + 1]) ? token : token + line();
    }
    if (token === "]" || token === "}") {
      depth -= 1;
      return ["[", "{"].includes(tokens[index - 1]) ? token : line() + token;
    }
    if (token === ",") return token + line();
    return token === ":" ? ": " : token;
  }).join("");
}

function hex(raw) {
  const lines = [];
  for (let at = 0; at < raw.length; at += 16) {
    const line = [...raw.subarray(at, at + 16)];
    const left = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    const right = line.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}`);
  }
  return lines.join("\n");
}
