// The report in one file, opened from a disk with the network cut off: a real recording of calls that stall 44 ms.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { bundle, hash, launch, picture, root } from "./helper.js";

const PROGRAM = process.env.SOCKSCOPE_VIEW || join(root, "target", "debug", "sockscope-view");
const STALL_MS = [39, 48];
/** Of the canvas' colour, for one that is drawn over a grid. */
const NEAR = 40;

let folder;
let browser;

before(async () => {
  folder = mkdtempSync(join(tmpdir(), "sockscope-report-"));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The page of a bundle; requests that leave it, and errors, are kept. */
async function open(name, options = {}) {
  const file = join(folder, `${name}.html`);
  execFileSync(PROGRAM, ["report", bundle(name), "--format", "html", "-o", file]);
  const context = await browser.newContext({ viewport: { width: 1200, height: 1000 }, offline: true, ...options });
  const page = await context.newPage();
  const wrong = [];
  page.on("pageerror", (error) => wrong.push(error.stack || String(error)));
  page.on("console", (message) => message.type() === "error" && wrong.push(message.text()));
  page.on("request", (request) => request.url().startsWith("file:") || wrong.push(`asked for ${request.url()}`));
  await page.goto(`file://${file}`);
  return { page, wrong, done: () => context.close() };
}

/** Width of the band in the colour of a stage, in milliseconds of the axis below it. */
function bandMs(page, stage) {
  return page.evaluate(([name, near]) => {
    const figure = document.querySelector('#flow-2-figures figure[data-kind="queues"]');
    const canvas = figure.querySelector("canvas");
    const color = getComputedStyle(figure).getPropertyValue(`--place-${name}`).trim();
    const wanted = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, Math.floor(height / 2), width, 1);
    let [longest, run] = [0, 0];
    for (let x = 0; x < width; x += 1) {
      const apart = wanted.reduce((sum, value, part) => sum + Math.abs(value - data[4 * x + part]), 0);
      run = apart < near ? run + 1 : 0;
      longest = Math.max(longest, run);
    }
    const span = /^([\d.]+) ms/.exec(figure.querySelector(".figure-range").textContent);
    const plot = figure.querySelector(".u-over").getBoundingClientRect().width * devicePixelRatio;
    return (longest / plot) * Number(span[1]);
  }, [stage, NEAR]);
}

test("evidence opens its figure at one stall, which is a band of the send queue", async () => {
  const { page, wrong, done } = await open("two-writes");
  await page.locator(".finding a[data-flow]").first().click();
  await page.waitForSelector("#flow-2-figures .figure-live canvas");
  await page.waitForTimeout(100);
  const ms = await bandMs(page, "send_queue");
  assert.ok(STALL_MS[0] < ms && ms < STALL_MS[1], `${ms} ms`);
  await picture(page, "report-stall");
  assert.deepEqual(wrong, []);
  await done();
});

test("keys, buttons and a double click zoom all figures of a flow, and a mark opens its finding", async () => {
  const { page, wrong, done } = await open("two-writes");
  const figures = page.locator("#flow-2-figures");
  await figures.scrollIntoViewIfNeeded();
  await page.waitForSelector("#flow-2-figures .figure-live canvas");
  const canvas = '#flow-2-figures figure[data-kind="positions"]';
  const ranges = () => figures.locator(".figure-range").allTextContents();
  const [whole, drawn] = [await ranges(), await hash(page, canvas)];
  await figures.locator(".figure-live").first().focus();
  await page.keyboard.press("+");
  await page.keyboard.press("ArrowRight");
  const zoomed = await ranges();
  assert.equal(new Set(zoomed).size, 1, zoomed.join());
  assert.notEqual(zoomed[0], whole[0]);
  await page.waitForTimeout(100);
  assert.notEqual(await hash(page, canvas), drawn);
  await figures.locator(".u-over").nth(1).dblclick({ position: { x: 300, y: 100 } });
  assert.deepEqual(await ranges(), whole);
  const mark = figures.locator(".figure-mark").nth(3);
  await mark.dispatchEvent("click");
  assert.match(new URL(page.url()).hash, /^#finding-1-\d$/);
  assert.deepEqual(wrong, []);
  await done();
});

test("steps of another host have a band as wide as the error of its clock", async () => {
  const { page, wrong, done } = await open("one-write");
  await page.evaluate(() => {
    const step = (values) => ({ min: values, max: values, last: values });
    const columns = { point1: step([500, 500, 1000, 1000]), point8: step([0, 0, 0, 1000]) };
    for (const error of [0.1, 0.7, null, undefined]) {
      const root = document.querySelector("main").appendChild(document.createElement("figure"));
      root.className = "of-error";
      const data = { t: [0, 0.2, 0.4, 0.6, 1], columns, error };
      const looks = { receive_queue: { letter: "R" } };
      sockscopeFigures.drawSequence(root, data, { group: `error ${error}`, looks, label: "", range: [0, 1] });
    }
  });
  await page.waitForFunction(() => document.querySelectorAll(".of-error canvas").length === 4);
  await page.waitForTimeout(100);
  const found = await page.evaluate((near) => [...document.querySelectorAll(".of-error")].map((root) => {
    // First and last time at which a height between two lines has the pale colour of bytes read.
    const canvas = root.querySelector("canvas");
    const [plot, whole] = [".u-over", "canvas"].map((name) => root.querySelector(name).getBoundingClientRect());
    const scale = canvas.width / whole.width;
    const y = Math.round((plot.top - whole.top + plot.height * 0.7) * scale);
    const row = canvas.getContext("2d").getImageData(0, y, canvas.width, 1).data;
    const ink = getComputedStyle(root).getPropertyValue("--ink-program").trim();
    const wanted = [...[1, 3, 5].map((at) => parseInt(ink.slice(at, at + 2), 16)), 255 / 4];
    const times = [];
    for (let x = 0; x < canvas.width; x += 1) {
      const apart = wanted.reduce((sum, value, part) => sum + Math.abs(value - row[4 * x + part]), 0);
      if (apart < near) times.push((x / scale - (plot.left - whole.left)) / plot.width);
    }
    const notes = [...root.querySelectorAll(".figure-note")].map((note) => note.textContent);
    return { band: [times[0], times.at(-1)], notes };
  }), NEAR);
  const [narrow, wide, unknown, one] = found;
  await page.locator(".of-error").first().scrollIntoViewIfNeeded();
  await picture(page, "report-error");
  // The axis begins and ends a little outside of its range.
  assert.ok(Math.abs(narrow.band[0] - 0.5) < 0.02 && Math.abs(narrow.band[1] - 0.7) < 0.02, JSON.stringify(found));
  const size = (words) => `times between the two hosts are ±${words}: pale bands of points 5 to 8 where they fit in the figure`;
  assert.deepEqual(narrow.notes, [size("100 ms")]);
  assert.deepEqual(wide.notes, [size("700 ms")]);
  assert.deepEqual(unknown.notes, ["the error of times between the two hosts is not known"]);
  assert.deepEqual(one.notes, []);
  // The edge of a line may be as pale.
  for (const { band: [from, to] } of [wide, unknown, one]) assert.ok(!(to - from > 0.01), `${from} to ${to}`);
  assert.deepEqual(wrong, []);
  await done();
});

test("the JSON that the page saves is that of the report", async () => {
  const { page, wrong, done } = await open("one-write");
  const [download] = await Promise.all([
    page.waitForEvent("download"),
    page.getByRole("button", { name: "Save the report as JSON" }).click(),
  ]);
  const text = [];
  for await (const part of await download.createReadStream()) text.push(part);
  const report = JSON.parse(Buffer.concat(text).toString());
  assert.equal(report.schema, "sockscope.report/2");
  assert.deepEqual(wrong, []);
  await done();
});

test("without scripts the drawings are there; in print they are there too", async () => {
  const { page, done } = await open("two-writes", { javaScriptEnabled: false });
  assert.equal(await page.locator(".figure-static svg:visible").count(), 6);
  await picture(page, "report-no-script");
  await done();
  const scripted = await open("two-writes");
  await scripted.page.locator("#flow-2-figures").scrollIntoViewIfNeeded();
  await scripted.page.waitForSelector(".figure-live canvas");
  await scripted.page.emulateMedia({ media: "print" });
  assert.equal(await scripted.page.locator(".figure-live:visible").count(), 0);
  assert.equal(await scripted.page.locator(".figure-static svg:visible").count(), 6);
  await scripted.done();
});

test("a narrow dark screen shows all of it without a scroll bar", async () => {
  const { page, wrong, done } = await open("two-writes", { viewport: { width: 400, height: 800 }, colorScheme: "dark" });
  await page.locator("#flow-2-figures").scrollIntoViewIfNeeded();
  await page.waitForSelector("#flow-2-figures .figure-live canvas");
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 400, `${width} pixels`);
  await picture(page, "report-narrow");
  assert.deepEqual(wrong, []);
  await done();
});
