// Starts the program and a browser for the tests. The browser is Debian's: nothing is fetched.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

const here = dirname(fileURLToPath(import.meta.url));
export const root = join(here, "..", "..");
export const CHROMIUM = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find((path) => existsSync(path));
const PROGRAM = process.env.SOCKSCOPE_VIEW || join(root, "target", "debug", "sockscope-view");
const PICTURES = join(process.env.CARGO_TARGET_DIR || join(root, "target"), "browser");

/** The page of these arguments of `sockscope view`; `end` ends the program. */
export function serve(...words) {
  const child = spawn(PROGRAM, ["view", ...words], { stdio: ["ignore", "inherit", "pipe"] });
  let said = "";
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  const address = new Promise((resolve, reject) => {
    child.on("error", reject);
    child.stderr.on("data", (text) => {
      said += text;
      const found = /http:\/\/\S+/.exec(said);
      if (found) resolve(found[0]);
    });
    ended.then((code) => reject(new Error(`it ended with ${code}: ${said}`)));
  });
  const end = () => {
    child.kill("SIGINT");
    return ended;
  };
  return { address, end, child, ended };
}

export async function launch() {
  // Root's processes have no sandbox of Chromium's.
  const args = process.getuid() === 0 ? ["--no-sandbox"] : [];
  return chromium.launch({ executablePath: CHROMIUM, args });
}

/** A page that keeps every error of its scripts, and every answer of a server that is an error. */
export async function open(browser, address, options = {}) {
  const page = await browser.newPage({ viewport: { width: 1360, height: 950 }, ...options });
  const errors = [];
  page.on("pageerror", (error) => errors.push(error.stack || String(error)));
  page.on("console", (message) => message.type() === "error" && errors.push(message.text()));
  page.on("response", (response) => response.status() >= 400 && errors.push(`${response.status()} ${response.url()}`));
  await page.goto(address);
  await page.waitForSelector("body[data-ready]");
  return { page, errors };
}

/** Shows a view, as a link to it does. */
export async function show(page, fields) {
  const drawn = await times(page);
  await page.evaluate((hash) => { location.hash = hash; }, new URLSearchParams(fields).toString());
  if (fields.view === "connection") await drawnAfter(page, drawn);
  else await page.waitForSelector(`.view-${fields.view} :first-child`);
}

const SEQUENCE = ".figure-sequence";

/** How often the figures were drawn with new columns. */
export function times(page) {
  return page.evaluate((selector) => Number(document.querySelector(selector)?.dataset.drawn || 0), SEQUENCE);
}

/** Waits for new columns. */
export function drawnAfter(page, before) {
  const isNew = ([selector, count]) => {
    const found = document.querySelector(selector);
    return found && Number(found.dataset.drawn || 0) > (found.dataset.seen === "yes" ? count : 0);
  };
  return page.waitForFunction(isNew, [SEQUENCE, before]).then(() => page.evaluate((selector) => {
    document.querySelector(selector).dataset.seen = "yes";
  }, SEQUENCE));
}

/** All pixels of the canvas in an element, as one hash. */
export function hash(page, selector) {
  return page.evaluate((wanted) => {
    const canvas = document.querySelector(`${wanted} canvas`);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let found = 0;
    for (let at = 0; at < data.length; at += 1) found = (Math.imul(found, 31) + data[at]) | 0;
    return found;
  }, selector);
}

/** Keeps a picture of the page, to look at. */
export async function picture(page, name) {
  mkdirSync(PICTURES, { recursive: true });
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

export const bundle = (name) => join(root, "crates", "cli", "demo", `${name}.sockscope`);
