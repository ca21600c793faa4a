// Searches the site in Chromium, and prints the pages that it finds. Usage: site.js FILE WORD
import { createRequire } from "node:module";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
const puppeteer = createRequire(join(root, ".deps/console/package.json"))("puppeteer-core");
const [, , file, word] = process.argv;
const executablePath = process.env.PATH.split(":").map((part) => join(part, "chromium")).find(existsSync);
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(120_000);
  await page.goto(`${pathToFileURL(file)}?search=${encodeURIComponent(word)}`);
  await page.waitForSelector("#mdbook-searchresults a, #searchresults a");
  const found = await page.$$eval("#mdbook-searchresults a, #searchresults a", (links) => links.map((link) => link.href));
  console.log(found.join("\n"));
} finally {
  await browser.close();
}
