// Looks at a page in a headless Chromium, as a person and as a screen reader would.
//
//     node look.mjs '{"page", "chromium", "width", "scheme", "javascript", "picture", "print"}'
//
// Gives as JSON: boxes of the parts that a layout is made of, what sticks out, what axe-core finds,
// where the Tab key leads, what Enter opens there, requests to the network, errors of the console.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const given = JSON.parse(process.argv[2]);
const browser = await chromium.launch({
  executablePath: given.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
// Without JavaScript nothing can be asked of the page but its picture.
const asks = given.javascript !== false;
const context = await browser.newContext({
  viewport: { width: given.width, height: 900 },
  colorScheme: given.scheme ?? "light",
  javaScriptEnabled: asks,
  reducedMotion: "reduce",
});
const page = await context.newPage();
const found = { requests: [], errors: [] };
const address = pathToFileURL(given.page).href;
page.on("request", (request) => {
  if (request.url() !== address) {
    found.requests.push(request.url());
  }
});
page.on("console", (message) => {
  if (message.type() === "error") {
    found.errors.push(message.text());
  }
});
const started = Date.now();
await page.goto(address);
found.milliseconds = Date.now() - started;
if (given.picture) {
  await page.screenshot({ path: given.picture, fullPage: given.whole !== false });
}
if (asks) {
  found.boxes = await page.evaluate(boxes);
  found.outside = await page.evaluate(outside);
  found.tabs = given.tabs ? await tabs(given.tabs) : [];
  found.opened = await opened();
  await page.evaluate(() => {
    for (const one of document.querySelectorAll("details")) {
      one.open = true;
    }
  });
  found.outsideOpened = await page.evaluate(outside);
  found.axe = await axe();
  if (given.openedPicture) {
    await page.screenshot({ path: given.openedPicture, fullPage: given.whole !== false });
  }
}
await browser.close();
console.log(JSON.stringify(found));

/** Where headlines, strips and their pieces lie: [what, left, top, width, height]. */
function boxes() {
  const wanted = "h1, .numbers li, .region, .strip, .strip li, .bar, .bar b, .bar i, summary";
  return [...document.querySelectorAll(wanted)].map((one) => {
    const box = one.getBoundingClientRect();
    const name = one.tagName.toLowerCase() + (one.className ? `.${one.className}` : "");
    return [name, box.left, box.top + scrollY, box.width, box.height];
  });
}

/** Elements that stick out of the window, but for those in a box that scrolls by itself. */
function outside() {
  const width = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > width) {
    found.push(`the page is ${document.documentElement.scrollWidth} wide`);
  }
  for (const one of document.querySelectorAll("body *")) {
    const box = one.getBoundingClientRect();
    const scrolls = one.parentElement.closest(".scroll, .sides, pre, .strip");
    if (box.width && box.right > width + 1 && !scrolls && !one.closest(".skip")) {
      found.push(`${one.tagName} ${one.className} ends at ${Math.round(box.right)}`);
    }
  }
  return found.slice(0, 10);
}

/** What the Tab key leads to, in turn: a description, and whether its focus is to be seen. */
async function tabs(count) {
  const met = [];
  for (let number = 0; number < count; number += 1) {
    await page.keyboard.press("Tab");
    met.push(
      await page.evaluate(() => {
        const one = document.activeElement;
        const box = one.getBoundingClientRect();
        const style = getComputedStyle(one);
        return {
          tag: one.tagName.toLowerCase(),
          text: (one.getAttribute("aria-label") ?? one.textContent).trim().slice(0, 80),
          href: one.getAttribute("href") ?? "",
          ring: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0,
          inView: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
        };
      }),
    );
  }
  return met;
}

/** From a gap of a strip to its break and its patch, by the keyboard alone. */
async function opened() {
  const gap = page.locator(".strip .gap a").first();
  if (!(await gap.count())) {
    return null;
  }
  await gap.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  const summary = await page.evaluate(() => {
    const one = document.activeElement;
    return { tag: one.tagName.toLowerCase(), parent: one.parentElement.id };
  });
  await page.keyboard.press("Enter");
  const open = await page.evaluate(() => document.activeElement.parentElement.open ?? null);
  return { target: await gap.getAttribute("href"), summary, open };
}

/** What axe-core says against the page (WCAG 2.1 A and AA, and its best practices). */
async function axe() {
  const source = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
  // The page's own policy allows no script; a debugger's is not asked for it.
  const { readFileSync } = await import("node:fs");
  await page.evaluate(readFileSync(source, "utf8"));
  const result = await page.evaluate(() => globalThis.axe.run(document));
  return {
    passes: result.passes.length,
    violations: result.violations.map((one) => ({
      id: one.id,
      impact: one.impact,
      nodes: one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200)),
    })),
  };
}
