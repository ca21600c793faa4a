// The page of `make demo` in Chromium: both shops live, their store killed and started by the button. Usage: demo.js URL [PICTURE]
import { createRequire } from "node:module";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const require = createRequire(join(root, ".deps/console/package.json"));
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

const [, , url, picture] = process.argv;
const executablePath = process.env.PATH.split(":").map((part) => join(part, "chromium")).find(existsSync);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const complaints = [];

/** Waits until the last second of the shops without and with Larder is like this. */
function until(page, what, condition) {
  const holds = (source) => {
    const rows = [...document.querySelectorAll("#rows tr")].map((row) => [...row.querySelectorAll("td")].map((cell) => Number(cell.textContent)));
    if (rows.length !== 2) return false;
    const [plain, larder] = rows.map(([p50, p99, pages, failed, requests]) => ({ p50, p99, pages, failed, requests }));
    return new Function("plain", "larder", `return ${source}`)(plain, larder);
  };
  return page.waitForFunction(holds, {}, condition).catch(async () => {
    throw new Error(`never: ${what} (${condition}): ${await page.$eval("main", (main) => main.innerText)}`);
  });
}

try {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  page.on("pageerror", (error) => complaints.push(String(error)));
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) complaints.push(message.text()); });
  await page.setViewport({ width: 1120, height: 900 });
  await page.goto(url);
  await until(page, "both shops serve pages", "plain.pages > 0 && larder.pages > 0 && plain.p99 > 0 && larder.p99 > 0");
  await until(page, "Larder is nearer and spares the store", "plain.p50 > larder.p50 && plain.requests > 2 * larder.requests");
  const charts = await page.$$eval("figure polyline", (lines) => lines.length);
  if (charts < 8) throw new Error(`${charts} lines instead of 8`);
  await page.click("#kill");
  await until(page, "only the shop with Larder serves pages", "plain.pages === 0 && plain.failed > 0 && larder.pages > larder.failed");
  await page.waitForFunction(() => document.getElementById("state").textContent.endsWith(" is dead."));
  if (picture !== undefined) await page.screenshot({ path: picture });
  await page.click("#kill");
  await until(page, "both serve pages again", "plain.failed === 0 && larder.failed === 0 && plain.pages > 0 && larder.pages > 0");
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  complaints.push(...violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join("\n")}`));
  // Of the shop itself.
  await page.goto(await page.$eval("#rows tr:last-child a", (link) => link.href));
  const [before] = (await page.$eval("b", (price) => price.parentElement.innerText)).match(/\d+(?= in stock)/);
  await Promise.all([page.waitForNavigation(), page.click("button")]);
  const left = await page.$eval("body", (body) => body.innerText);
  if (!(Number.parseInt(left) < Number(before))) throw new Error(`an order left ${left} of ${before}`);
  if (complaints.length > 0) throw new Error(complaints.join("\n"));
} finally {
  await browser.close();
}
