// `sockscope view` of two real recordings in a browser: calls that stall 44 ms, and the same calls in one write.

import assert from "node:assert/strict";
import { request } from "node:http";
import { after, before, test } from "node:test";
import { bundle, drawnAfter, hash, launch, open, picture, serve, show, times } from "./helper.js";

const STALL_MS = [39, 48];
/** Of the canvas' colour, for one that is drawn over a grid. */
const NEAR = 40;

let server;
let browser;
let address;
let page;
let errors;

before(async () => {
  server = serve(bundle("two-writes"), bundle("one-write"));
  [address, browser] = await Promise.all([server.address, launch()]);
  ({ page, errors } = await open(browser, address));
});

after(async () => {
  await browser?.close();
  assert.equal(await server.end(), 0, "the program ends in order");
});

function noErrors() {
  assert.deepEqual(errors.splice(0), [], "the page has no error");
}

/** Status and text of an answer; `headers` replace those of this server. */
function ask(path, headers = {}, method = "GET") {
  const { hostname, port } = new URL(address);
  return new Promise((resolve, reject) => {
    const asked = request({ hostname, port, path, method, headers }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => resolve({ status: answer.statusCode, text, headers: answer.headers }));
    });
    asked.on("error", reject);
    asked.end();
  });
}

const token = () => new URL(address).searchParams.get("token");

const PATHS = [
  "/", "/assets/page.js", "/api/overview", "/api/traces", "/api/places", "/api/events", "/api/report?id=1",
  "/api/curves?flow=2&from=0&to=1e9&names=point1", "/api/records?flow=2&from=0&to=1e9", "/api/laboratory", "/no-such",
];

test("nothing is answered without the token", async () => {
  const wrong = token().replace(/./, (digit) => (digit === "0" ? "1" : "0"));
  for (const path of PATHS) {
    const and = path.includes("?") ? "&" : "?";
    for (const given of ["", `${and}token=`, `${and}token=${wrong}`, `${and}token=${token().slice(1)}`]) {
      const { status, text } = await ask(path + given);
      assert.equal(status, 403, path + given);
      assert.match(text, /^{"error":"no token: [^\n]*"}\n$/);
    }
    const { status } = await ask(path, { cookie: `sockscope-${new URL(address).port}=${wrong}` });
    assert.equal(status, 403, path);
  }
});

test("another name for this host is refused, with the token too", async () => {
  for (const host of ["evil.example", `evil.example:${new URL(address).port}`, "127.0.0.1", "127.0.0.1:1"]) {
    for (const path of PATHS) {
      const and = path.includes("?") ? "&" : "?";
      const { status } = await ask(`${path}${and}token=${token()}`, { host });
      assert.equal(status, 421, `${host} ${path}`);
    }
  }
});

test("only the page itself may change something", async () => {
  const path = `/api/laboratory/lh-1?on=model&token=${token()}`;
  for (const origin of [undefined, "http://evil.example", "http://127.0.0.1:1", "null"]) {
    const { status } = await ask(path, origin ? { origin } : {}, "POST");
    assert.equal(status, 403, String(origin));
  }
});

test("answers are kept nowhere and load nothing from elsewhere", async () => {
  const { headers } = await ask(`/?token=${token()}`);
  assert.match(headers["content-security-policy"], /^default-src 'self';/);
  assert.equal(headers["cache-control"], "no-store");
  assert.equal(headers["x-content-type-options"], "nosniff");
  assert.match(headers["set-cookie"][0], /; HttpOnly; SameSite=Strict/);
});

test("a wrong question is one line with a way out", async () => {
  const bad = async (path) => (await ask(`${path}&token=${token()}`)).text;
  assert.match(await bad("/api/curves?flow=2&from=5&to=5&names=point1"), /^{"error":"from 5 to 5 is no time: give a later end"}\n$/);
  assert.match(await bad("/api/curves?flow=2&from=0&to=5&names=nonsense"), /no curve nonsense: there are point1, /);
  assert.match(await bad("/api/connection?id=99"), /no connection 99 in this trace/);
  assert.match(await bad("/api/overview?trace=7"), /there is no trace 7/);
});

test("the overview has the verdict, the finding and the connection, and the token leaves the address", async () => {
  await page.waitForSelector(".verdict dd.first");
  assert.match(await page.textContent(".verdict"), /nagle-delayed-ack costs most/);
  assert.equal(await page.locator(".view-overview .list").count(), 2);
  assert.match(await page.textContent(".view-overview"), /demo-server/);
  assert.equal(new URL(page.url()).search, "");
  await picture(page, "overview");
  noErrors();
});

test("the filter leaves the connections that have the words", async () => {
  await page.fill(".filter", "no-such-process");
  await page.waitForSelector("text=No connection has these words.");
  await page.fill(".filter", "demo-server");
  await page.waitForSelector(".view-overview a.main[data-id='1']");
  await page.fill(".filter", "");
  noErrors();
});

test("a connection is drawn, and its pixels change with the data", async () => {
  await show(page, { view: "connection", id: 1 });
  const figures = [".figure-sequence", ".figure-ledger", ".figure-bands"];
  const all = await Promise.all(figures.map((figure) => hash(page, figure)));
  const drawn = await times(page);
  await page.keyboard.press("f");
  await drawnAfter(page, drawn);
  const other = await Promise.all(figures.map((figure) => hash(page, figure)));
  all.forEach((before, index) => assert.notEqual(before, other[index], figures[index]));
  await picture(page, "connection");
  noErrors();
});

test("a connection between two hosts has the error of their clocks in its figure", async () => {
  const notes = async (error) => {
    const answers = async (route) => {
      const answer = await route.fetch();
      const one = await answer.json();
      for (const { stages } of one.flows) Object.assign(stages.find(({ stage }) => stage === "wire"), error);
      await route.fulfill({ response: answer, json: one });
    };
    await page.route("**/api/connection?*", answers);
    await show(page, { view: "overview" });
    await show(page, { view: "connection", id: 1 });
    await page.unroute("**/api/connection?*", answers);
    const shown = await page.locator(".figure-sequence .figure-note").allTextContents();
    return shown.filter((note) => note.includes("two hosts")).map((note) => note.split(":")[0]);
  };
  assert.deepEqual(await notes({ uncertainty_ns: 410_000 }), ["times between the two hosts are ±410 µs"]);
  const unknown = await notes({ uncertainty_is_unknown: true });
  assert.deepEqual(unknown, ["the error of times between the two hosts is not known"]);
  assert.deepEqual(await notes({}), []);
  noErrors();
});

/** The stall of one call: a byte that waited in the send queue, from the server's own answer. */
async function stall() {
  const { text } = await ask(`/api/connection?id=1&token=${token()}`);
  const found = JSON.parse(text).findings.find(({ id }) => id === "nagle-delayed-ack");
  return { from: found.longest[0] / 1e9, to: found.longest[1] / 1e9, flow: found.flow };
}

test("a zoom to one stalled call shows its time as a band of the send queue", async () => {
  const { from, to, flow } = await stall();
  const lasted = (to - from) * 1000;
  assert.ok(lasted > STALL_MS[0] && lasted < STALL_MS[1], `${lasted} ms`);
  await show(page, { view: "connection", id: 1, flow, from: from - 0.01, to: to + 0.01 });
  // Columns of pixels whose middle has the colour of the send queue.
  const band = await page.evaluate(([wantedFrom, wantedTo, near]) => {
    const canvas = document.querySelector(".figure-sequence canvas");
    const context = canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const rgb = (name) => {
      const probe = document.createElement("canvas").getContext("2d");
      probe.fillStyle = style.getPropertyValue(name).trim();
      probe.fillRect(0, 0, 1, 1);
      return [...probe.getImageData(0, 0, 1, 1).data];
    };
    const [colour, ground] = [rgb("--place-send_queue"), rgb("--figure-ground")];
    const mixed = colour.map((value, index) => (value + ground[index]) / 2).slice(0, 3);
    const over = document.querySelector(".figure-sequence .u-over").getBoundingClientRect();
    const box = canvas.getBoundingClientRect();
    const scale = canvas.width / box.width;
    const [left, top] = [(over.left - box.left) * scale, (over.top - box.top) * scale];
    const [width, height] = [Math.floor(over.width * scale), Math.floor(over.height * scale)];
    const { data } = context.getImageData(left, top, width, height);
    const isBand = (x, y) => mixed.every((value, index) => Math.abs(data[4 * (y * width + x) + index] - value) < near);
    const span = wantedTo - wantedFrom + 0.02;
    const xOf = (time) => Math.round(((time - wantedFrom + 0.01) / span) * width);
    const [first, last] = [xOf(wantedFrom) + 3, xOf(wantedTo) - 3];
    // The row in the middle of the stall that has most of the band.
    let best = 0;
    let bestRow = 0;
    for (let y = 0; y < height; y += 1) {
      let count = 0;
      for (let x = first; x < last; x += 1) count += isBand(x, y) ? 1 : 0;
      if (count > best) [best, bestRow] = [count, y];
    }
    let outside = 0;
    for (let x = 0; x < width; x += 1) if ((x < first - 6 || x > last + 6) && isBand(x, bestRow)) outside += 1;
    return { inside: best / (last - first), outside: outside / width };
  }, [from, to, NEAR]);
  assert.ok(band.inside > 0.9, `the band covers ${band.inside} of the stall`);
  assert.ok(band.outside < 0.1, `and ${band.outside} of the rest at that height`);
  await picture(page, "stall");
  noErrors();
});

test("the byte below the pointer has its stage and its delay", async () => {
  const { from, to } = await stall();
  const asked = await ask(`/api/records?flow=2&from=${from * 1e9 - 2e6}&to=${from * 1e9 + 2e6}&token=${token()}`);
  const held = JSON.parse(asked.text).records.find(({ line }) => line.includes("held: nagle"));
  const over = page.locator(".figure-sequence .u-over");
  const box = await over.boundingBox();
  // Down the middle of the stall until a byte of the held write is below the pointer.
  for (let down = 10; down < box.height; down += 6) {
    await page.mouse.move(box.x + box.width / 2, box.y + down);
    await page.waitForTimeout(70);
    const said = await page.textContent(".byte");
    const found = /^Byte ([\d,]+) at .*in the send queue, ([\d.]+) ms there/.exec(said);
    if (!found) continue;
    const position = Number(found[1].replaceAll(",", ""));
    assert.ok(position >= held.offset && position < held.offset + held.bytes, said);
    assert.ok(Math.abs(Number(found[2]) - (to - from) * 1000) < 1, said);
    noErrors();
    return;
  }
  assert.fail(`no byte of the held write was found: ${await page.textContent(".byte")}`);
});

test("a marker opens the evidence of its finding, and the evidence shows its time", async () => {
  await show(page, { view: "overview" });
  await show(page, { view: "connection", id: 1, flow: 2 });
  const details = page.locator("details[data-finding='nagle-delayed-ack']");
  assert.equal(await details.evaluate((element) => element.open), false);
  await page.locator(".figure-mark[aria-label^='nagle-delayed-ack']").first().click();
  assert.equal(await details.evaluate((element) => element.open), true);
  assert.match(await details.textContent(), /held by Nagle's algorithm/);
  const drawn = await times(page);
  await details.locator(".evidence button").first().click();
  await drawnAfter(page, drawn);
  assert.match(await page.textContent(".figure-range"), /^2\.00 ms from /);
  await page.waitForSelector(".records tr.open");
  noErrors();
});

test("a click on a record shows where its byte was", async () => {
  await page.locator(".records tr.open", { hasText: "SendEnqueue" }).first().click();
  await page.waitForFunction(() => document.querySelector(".byte").textContent.startsWith("Byte "));
  noErrors();
});

test("a link keeps the view and its zoom", async () => {
  const { page: other, errors: others } = await open(browser, address);
  await other.evaluate((hashOf) => { location.hash = hashOf; }, new URL(page.url()).hash);
  await other.waitForFunction(() => document.querySelector(".figure-range")?.textContent.startsWith("2.00 ms from "));
  await other.close();
  assert.deepEqual(others, []);
});

test("the comparison has both traces and the finding that disappeared", async () => {
  await show(page, { view: "compare" });
  const said = await page.textContent(".view-compare");
  assert.match(said, /two-writes.*one-write/s);
  assert.match(said, /nagle-delayed-ack.*disappeared/s);
  await picture(page, "compare");
  noErrors();
});

test("the second trace has its own overview and figures", async () => {
  await page.selectOption(".traces", "1");
  await page.waitForFunction(() => document.querySelector("h1")?.textContent === "one-write");
  await show(page, { view: "connection", id: 1, trace: 1 });
  assert.match(await page.textContent(".view-connection"), /None on this connection/);
  noErrors();
});

test("the laboratory lists the experiments", async () => {
  await show(page, { view: "laboratory" });
  await page.waitForSelector(".experiments li");
  assert.match(await page.textContent(".experiments"), /lh-1/);
  noErrors();
});

test("in the dark and on 400 pixels nothing leaves the page", async () => {
  const narrow = { viewport: { width: 400, height: 850 }, colorScheme: "dark" };
  const { page: small, errors: found } = await open(browser, address, narrow);
  for (const fields of [{ view: "overview" }, { view: "connection", id: 1 }, { view: "compare" }, { view: "laboratory" }]) {
    await show(small, fields);
    const wide = await small.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= 400, `${fields.view} is ${wide} pixels wide`);
    await picture(small, `narrow-${fields.view}`);
  }
  await small.close();
  assert.deepEqual(found, []);
});

test("keys lead through the views", async () => {
  await show(page, { view: "overview" });
  await page.waitForSelector(".view-overview a.main[data-id='1']");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".view-connection");
  await page.keyboard.press("Escape");
  await page.waitForSelector(".view-overview");
  await page.keyboard.press("c");
  await page.waitForSelector(".view-compare");
  await page.keyboard.press("?");
  await page.waitForSelector("dialog[open]");
  await page.keyboard.press("Escape");
  noErrors();
});
