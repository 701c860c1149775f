import assert from "node:assert/strict";
import { test } from "node:test";
import { runSummary, serverCommand, settingsFor, startProblem, statusText } from "../src/logic";

test("the configured command comes first, then a Python, then PATH", () => {
  const none = { path: [], interpreter: "" };
  assert.deepEqual(serverCommand({ path: ["/a/gbfix", "-v"], interpreter: "/b/python" }, "/c/python"), {
    command: "/a/gbfix",
    args: ["-v", "lsp"],
  });
  assert.equal(serverCommand({ path: [], interpreter: "/b/python" }, "/c/python").command, "/b/python");
  assert.deepEqual(serverCommand(none, "/c/python"), {
    command: "/c/python",
    args: ["-P", "-m", "gbfix", "lsp"],
  });
  assert.deepEqual(serverCommand(none, undefined), { command: "gbfix", args: ["lsp"] });
});

test("a workspace cannot call itself trusted", () => {
  assert.equal(settingsFor({ trusted: true, run: "onSave" }, false).trusted, false);
  assert.equal(settingsFor(null, true).trusted, true);
});

test("the status bar counts measured breaks before likely ones", () => {
  const warning = { source: "gbfix", kind: "warning" };
  const hint = { source: "gbfix", kind: "hint" };
  assert.equal(statusText([warning, hint, warning], false), "$(warning) gbfix: 2 graph breaks");
  assert.equal(statusText([hint], false), "$(question) gbfix: 1 likely");
  assert.equal(statusText([{ source: "ruff", kind: "warning" }], false), "$(check) gbfix");
  assert.match(statusText([warning], true), /sync/);
});

test("a run is summed up in one line", () => {
  assert.equal(
    runSummary({ status: "done", breaks: 1, fixed: 1, regions: 2 }),
    "gbfix: 1 graph break in 2 regions, 1 with a validated fix",
  );
  assert.equal(runSummary({ status: "done", breaks: 0, regions: 1 }), "gbfix: no graph breaks in 1 region");
  assert.equal(runSummary({ status: "error" }), "");
});

test("a server that does not start is named", () => {
  assert.match(startProblem({ command: "gbfix", args: ["lsp"] }, new Error("ENOENT")), /gbfix lsp.*ENOENT/);
});
