import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

const manifest = JSON.parse(readFileSync("package.json", "utf8"));
const source = readFileSync("src/extension.ts", "utf8");

test("every command of the manifest is registered, and every registered one is in the manifest", () => {
  const declared = manifest.contributes.commands.map((item: { command: string }) => item.command);
  const registered = [...source.matchAll(/registerCommand\("([^"]+)"/g)].map((match) => match[1]);
  assert.deepEqual([...declared].sort(), registered.sort());
});

test("what decides which program runs is restricted in untrusted workspaces", () => {
  const restricted = manifest.capabilities.untrustedWorkspaces.restrictedConfigurations;
  for (const key of ["gbfix.path", "gbfix.interpreter", "gbfix.run", "gbfix.targets"]) {
    assert.ok(restricted.includes(key), key);
    assert.ok(key in manifest.contributes.configuration.properties, key);
  }
});
