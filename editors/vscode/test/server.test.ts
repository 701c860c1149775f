// The real server, driven through vscode-languageserver-protocol.

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import {
  CodeActionRequest,
  CodeActionResolveRequest,
  DiagnosticSeverity,
  DidChangeTextDocumentNotification,
  DidOpenTextDocumentNotification,
  ExecuteCommandRequest,
  ExitNotification,
  HoverRequest,
  InitializedNotification,
  InitializeRequest,
  PublishDiagnosticsNotification,
  ShutdownRequest,
  createProtocolConnection,
  type CodeAction,
  type Diagnostic,
  type ProtocolConnection,
  type PublishDiagnosticsParams,
  type TextDocumentEdit,
} from "vscode-languageserver-protocol/node";

const PROGRAM = `import torch


@torch.compile
def f(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


print(f(torch.ones(3)))
`;
const FIXED = PROGRAM.replace(
  "    if x.sum() > 0:\n        return x + 1\n    return x - 1\n",
  "    return torch.where(x.sum() > 0, x + 1, x - 1)\n",
);

const folder = realpathSync(mkdtempSync(join(tmpdir(), "gbfix-")));
const path = join(folder, "program.py");
const uri = pathToFileURL(path).href;
const seen: PublishDiagnosticsParams[] = [];
let server: ChildProcess;
let connection: ProtocolConnection;

async function diagnostics(wanted: (found: Diagnostic[]) => boolean): Promise<Diagnostic[]> {
  const end = Date.now() + 120_000;
  while (Date.now() < end) {
    const last = seen.filter((item) => item.uri === uri).at(-1);
    if (last && wanted(last.diagnostics)) {
      return last.diagnostics;
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error("no such diagnostics: " + JSON.stringify(seen.at(-1)));
}

function applied(action: CodeAction): string {
  const [change] = action.edit?.documentChanges as TextDocumentEdit[];
  const lines = PROGRAM.split("\n");
  for (const edit of [...change.edits].reverse()) {
    assert.ok("newText" in edit);
    const { start, end } = edit.range;
    lines.splice(start.line, end.line - start.line, ...edit.newText.split("\n").slice(0, -1));
  }
  return lines.join("\n");
}

before(async () => {
  writeFileSync(path, PROGRAM);
  writeFileSync(join(folder, "pyproject.toml"), "[project]\nname = 'x'\n");
  const environment = { ...process.env, GBFIX_CACHE_DIR: join(folder, "cache") };
  server = spawn(process.env.GBFIX ?? "gbfix", ["lsp"], { cwd: folder, env: environment });
  connection = createProtocolConnection(server.stdout!, server.stdin!);
  connection.onNotification(PublishDiagnosticsNotification.type, (params) => void seen.push(params));
  connection.listen();
  await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    rootUri: pathToFileURL(folder).href,
    workspaceFolders: null,
    capabilities: {
      workspace: { workspaceEdit: { documentChanges: true } },
      textDocument: { codeAction: { dataSupport: true, resolveSupport: { properties: ["edit"] } } },
    },
  });
  await connection.sendNotification(InitializedNotification.type, {});
  await connection.sendNotification(DidOpenTextDocumentNotification.type, {
    textDocument: { uri, languageId: "python", version: 1, text: PROGRAM },
  });
});

after(() => {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
});

test("opening shows a hint, and a hover that explains it", async () => {
  const [hint] = await diagnostics((found) => found.length > 0);
  assert.equal(hint.code, "GB0170");
  assert.equal(hint.severity, DiagnosticSeverity.Hint);
  const hover = await connection.sendRequest(HoverRequest.type, {
    textDocument: { uri },
    position: hint.range.start,
  });
  assert.match(JSON.stringify(hover?.contents), /torch\.cond/);
});

test("resolving the action runs the program and gives the validated edit", async () => {
  const [hint] = await diagnostics((found) => found.length > 0);
  const actions = await connection.sendRequest(CodeActionRequest.type, {
    textDocument: { uri },
    range: hint.range,
    context: { diagnostics: [hint], only: ["quickfix"] },
  });
  const resolved = await connection.sendRequest(CodeActionResolveRequest.type, actions![0] as CodeAction);
  assert.equal(applied(resolved), FIXED);
  assert.equal(readFileSync(path, "utf8"), PROGRAM, "the file itself is the editor's to write");
});

test("the measured break is a warning, and the fixed text has none", async () => {
  await diagnostics((found) => found[0]?.severity === DiagnosticSeverity.Warning);
  await connection.sendNotification(DidChangeTextDocumentNotification.type, {
    textDocument: { uri, version: 2 },
    contentChanges: [{ text: FIXED }],
  });
  await diagnostics((found) => found.every((item) => JSON.stringify(item.message).startsWith("\"Stale")));
});

test("explain answers with Markdown, and the server leaves when asked to", async () => {
  const answer = (await connection.sendRequest(ExecuteCommandRequest.type, {
    command: "gbfix.explain",
    arguments: ["GB0170"],
  })) as { markdown: string };
  assert.match(answer.markdown, /### GB0170/);
  await connection.sendRequest(ShutdownRequest.type);
  const left = new Promise((resolve) => server.once("exit", resolve));
  await connection.sendNotification(ExitNotification.type);
  assert.equal(await left, 0);
});
