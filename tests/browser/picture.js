// The pictures of the page in README.md: node tests/browser/picture.js
//
// They show a stalled call of the recording in crates/cli/demo, in light and in dark.

import { join } from "node:path";
import { bundle, launch, open, root, serve, show } from "./helper.js";

const SIZE = { width: 1200, height: 860 };
/** The stalled call that docs/stalled-call.svg shows, seconds. */
const [FROM, TO] = [1.838, 1.898];

const server = serve(bundle("two-writes"));
const [address, browser] = await Promise.all([server.address, launch()]);
for (const [colorScheme, name] of [["light", "view.png"], ["dark", "view-dark.png"]]) {
  const { page, errors } = await open(browser, address, { viewport: SIZE, colorScheme });
  await show(page, { view: "connection", id: 1, flow: 2, from: FROM, to: TO });
  await page.locator(".figure-mark").first().click();
  await page.evaluate(() => document.querySelector(".path").scrollIntoView());
  const box = await page.locator(".figure-sequence .u-over").boundingBox();
  // Within the band of the stall.
  await page.mouse.move(box.x + box.width * 0.55, box.y + box.height * 0.45);
  await page.waitForFunction(() => document.querySelector(".byte").textContent.startsWith("Byte "));
  await page.evaluate(() => document.activeElement.blur());
  await page.screenshot({ path: join(root, "docs", name) });
  await page.close();
  if (errors.length) throw new Error(errors.join("\n"));
}
await browser.close();
process.exitCode = await server.end();
