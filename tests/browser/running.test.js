// `sockscope view --live`: the page follows a recording of calls that stall. It needs the rights of a recording.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { drawnAfter, hash, launch, open, picture, root, serve, show, times } from "./helper.js";

let calls;
let server;
let browser;
let page;
let errors;

/** A server of calls and its caller, which go on until they are ended. */
async function startCalls() {
  const script = join(root, "tests", "workloads", "split_calls.py");
  const child = spawn("python3", ["-B", "-u", script, "--one-process", "--port", "0", "--calls", "100000", "--timeout", "120"], { stdio: ["ignore", "pipe", "inherit"] });
  return child;
}

before(async () => {
  server = serve("--live", "--comm", "python3", "--interval", "500ms");
  const address = await server.address;
  calls = await startCalls();
  browser = await launch();
  ({ page, errors } = await open(browser, address));
});

after(async () => {
  calls?.kill("SIGKILL");
  await browser?.close();
  assert.equal(await server.end(), 0, "the program ends in order");
});

test("a connection that opens is in the list, and its stalls are found", async () => {
  await page.waitForSelector(".view-overview a.main", { timeout: 15000 });
  await page.waitForSelector("text=nagle-delayed-ack costs most", { timeout: 15000 });
  assert.equal(await page.textContent(".running"), "recording");
  assert.deepEqual(errors.splice(0), []);
});

test("its figures go on with the recording, and stop while the page is frozen", async () => {
  const id = await page.locator(".view-overview a.main[data-id]").first().getAttribute("data-id");
  await show(page, { view: "connection", id });
  const [first, drawn, begin] = [await hash(page, ".figure-sequence"), await times(page), await page.textContent(".figure-range")];
  await drawnAfter(page, drawn);
  await drawnAfter(page, await times(page));
  assert.notEqual(await hash(page, ".figure-sequence"), first);
  assert.notEqual(await page.textContent(".figure-range"), begin, "the axis is longer");
  await picture(page, "running");
  await page.keyboard.press(" ");
  await page.waitForSelector("text=frozen");
  const news = () => page.evaluate(() => Number(document.body.dataset.refreshed));
  const before = await news();
  await page.waitForFunction((count) => Number(document.body.dataset.refreshed) > count + 2, before);
  const frozen = await times(page);
  await page.waitForFunction((count) => Number(document.body.dataset.refreshed) > count + 4, before);
  assert.equal(await times(page), frozen, "a frozen page draws nothing");
  await page.keyboard.press(" ");
  await drawnAfter(page, frozen);
  assert.deepEqual(errors.splice(0), []);
});

test("the end of the command is said", async () => {
  calls.kill("SIGKILL");
  assert.equal(await server.end(), 0);
  await page.waitForSelector("text=the recording has ended");
});
