// Drives the extension in a real Visual Studio Code (code-server) through a headless Chromium.
//
//     node editor.mjs '{"server", "chromium", "vsix", "folder", "file", "python", "state", "pictures",
//                       "wrong": [FROM, TO]}'
//
// The packed extension is installed; a file is opened, run, fixed by its quick fix, then changed by
// hand (`wrong`) and judged.  Each step leaves a picture; what was seen goes to stdout as JSON.

import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { chromium } from "playwright-core";

const given = JSON.parse(process.argv[2]);
const patience = given.patience ?? 240_000;
const data = path.join(given.state, "data");
const words = [
  given.server, "--extensions-dir", path.join(given.state, "extensions"), "--user-data-dir", data,
  "--config", path.join(given.state, "config.yaml"),
];
const seen = { steps: [] };

function step(name, found) {
  seen.steps.push(name);
  if (found !== undefined) {
    seen[name] = found;
  }
}

function freePort() {
  return new Promise((resolve) => {
    const probe = createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

mkdirSync(path.join(data, "User"), { recursive: true });
writeFileSync(path.join(given.state, "config.yaml"), "auth: none\n");
writeFileSync(
  path.join(data, "User", "settings.json"),
  JSON.stringify({
    "gbfix.interpreter": given.python,
    "security.workspace.trust.enabled": false,
    "workbench.startupEditor": "none",
    "workbench.tips.enabled": false,
    "workbench.enableExperiments": false,
    "editor.minimap.enabled": false,
    "editor.fontSize": 14,
    "editor.autoClosingBrackets": "never",
    "editor.autoIndent": "none",
    "files.autoSave": "off",
    "extensions.ignoreRecommendations": true,
    "telemetry.telemetryLevel": "off",
    ...given.settings,
  }),
);

const installed = spawnSync(process.execPath, [...words, "--install-extension", given.vsix], {
  encoding: "utf8",
  env: { ...process.env, NODE_NO_WARNINGS: "1" },
});
step("installed", installed.status === 0 && /successfully installed/.test(installed.stdout));
if (installed.status !== 0) {
  throw new Error(installed.stdout + installed.stderr);
}

const port = await freePort();
const server = spawn(
  process.execPath,
  [...words, "--auth", "none", "--bind-addr", `127.0.0.1:${port}`, "--disable-telemetry",
   "--disable-update-check", "--disable-getting-started-override", given.folder],
  { stdio: ["ignore", "pipe", "pipe"], detached: true },
);
let said = "";
const ready = new Promise((resolve, reject) => {
  const listen = (chunk) => {
    said += chunk;
    if (/HTTP server listening/.test(said)) {
      resolve();
    }
  };
  server.stdout.on("data", listen);
  server.stderr.on("data", listen);
  server.on("exit", () => reject(new Error(said)));
});

let browser;
let page;
async function picture(name) {
  if (given.pictures) {
    await page.screenshot({ path: path.join(given.pictures, `${name}.png`) });
  }
}

/** Wait until the page shows an element, and say what it says. */
async function shown(selector, text) {
  const found = page.locator(selector).filter(text ? { hasText: text } : {}).first();
  await found.waitFor({ state: "visible", timeout: patience });
  return (await found.innerText()).replaceAll("\u00a0", " ").trim();
}

async function command(title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget .quick-input-box input").waitFor();
  await page.keyboard.type(title);
  await shown(".quick-input-list .monaco-list-row", title);
  await page.keyboard.press("Enter");
}

async function goTo(line) {
  await page.keyboard.press("Control+g");
  await page.locator(".quick-input-widget .quick-input-box input").waitFor();
  await page.keyboard.type(`${line}`);
  await page.keyboard.press("Enter");
  await page.locator(".quick-input-widget").waitFor({ state: "hidden" });
}

/** Open the list of quick fixes, again where the editor asked before the server had answered. */
async function quickFix(text) {
  const row = page.locator(".action-widget .monaco-list-row").filter({ hasText: text }).first();
  const until = Date.now() + patience;
  while (!(await row.isVisible()) && Date.now() < until) {
    await page.keyboard.press("Control+.");
    await row.waitFor({ state: "visible", timeout: 15_000 }).catch(() => undefined);
  }
  return shown(".action-widget .monaco-list-row", text);
}

try {
  await ready;
  browser = await chromium.launch({
    executablePath: given.chromium,
    args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
  });
  const context = await browser.newContext({ viewport: { width: 1280, height: 720 } });
  page = await context.newPage();
  await page.goto(`http://127.0.0.1:${port}/?folder=${encodeURIComponent(given.folder)}`);
  await shown(".monaco-workbench .explorer-folders-view", path.basename(given.file));
  step("started");

  // Opened: likely breaks are hints, nothing has run.
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: path.basename(given.file) })
    .dblclick();
  step("lens before", await shown(".codelens-decoration", "run and validate"));
  await picture("1-opened");

  // Run: the lens above the function.
  await page.locator(".codelens-decoration a", { hasText: "run and validate" }).first().click();
  await shown(".squiggly-warning");
  step("lens after", await shown(".codelens-decoration", "fixable"));
  await command("View: Focus Problems");
  step("problem", await shown(".markers-panel .monaco-list-row", "GB0170"));
  await picture("2-measured");

  // The fix: the quick fix of the line with the break.
  await page.locator(".editor-instance .view-lines").first().click({ position: { x: 500, y: 10 } });
  await goTo(given.line);
  step("fix", await quickFix(given.fix));
  step("actions", (await page.locator(".action-widget .monaco-list-row").allInnerTexts()).map(
    (text) => text.replaceAll("\u00a0", " ").trim(),
  ));
  await picture("3-quick-fix");
  await shown(".action-widget .monaco-list-row.focused", given.fix);
  await page.keyboard.press("Enter");
  step("fixed", await shown(".view-line", given.fixed));
  await page.keyboard.press("Control+s");
  step("lens fixed", await shown(".codelens-decoration", "fixed as validated"));
  await page.locator(".tab.active.dirty").waitFor({ state: "hidden" });
  step("problems left", await page.locator(".markers-panel .monaco-list-row", { hasText: "GB0170" }).count());
  await picture("4-fixed");

  // The change by hand, wrong on purpose: the judge says so.
  if (given.wrong) {
    const [from, to] = given.wrong;
    await page.keyboard.press("Control+h");
    await page.locator(".find-widget.visible textarea").first().waitFor();
    await page.keyboard.press("Control+a");
    await page.keyboard.type(from);
    await page.keyboard.press("Tab");
    await page.keyboard.type(to);
    await page.keyboard.press("Control+Alt+Enter");
    await page.keyboard.press("Escape");
    await shown(".view-line", to);
    await page.keyboard.press("Control+s");
    await page.keyboard.press("Control+j"); // room for the verdict
    await command("gbfix: Verify My Change");
    const frame = page.frameLocator("iframe.webview").frameLocator("#active-frame");
    await frame.locator("body", { hasText: "wrong" }).waitFor({ timeout: patience });
    step("verdict", await frame.locator("body").innerText());
    await page.locator(".notifications-toasts.visible .action-label.codicon-notifications-clear")
      .first().click({ timeout: 3000 }).catch(() => undefined);
    await picture("5-verified");
  }
} catch (error) {
  seen.error = String(error);
  if (page) {
    await picture("failed").catch(() => undefined);
  }
} finally {
  await browser?.close();
  process.kill(-server.pid, "SIGTERM");
  console.log(JSON.stringify(seen, null, 2));
}
process.exit(seen.error ? 1 : 0);
