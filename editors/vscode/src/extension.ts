// gbfix for Visual Studio Code: starts `gbfix lsp` and gives its commands a place.

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions } from "vscode-languageclient/node";
import {
  runSummary,
  serverCommand,
  settingsFor,
  startProblem,
  statusText,
  type RunResult,
} from "./logic";

let client: LanguageClient | undefined;
let running = 0;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("gbfix", { log: true });
  const status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right, 90);
  status.name = "gbfix";
  status.command = "gbfix.runActiveFile";
  context.subscriptions.push(log, status);
  const show = (): void => updateStatus(status);
  context.subscriptions.push(
    vscode.window.onDidChangeActiveTextEditor(show),
    vscode.languages.onDidChangeDiagnostics(show),
    vscode.commands.registerCommand("gbfix.runActiveFile", () => runActiveFile(show)),
    vscode.commands.registerCommand("gbfix.verifyChange", () => verifyChange(show)),
    vscode.commands.registerCommand("gbfix.explainCode", explainCode),
    vscode.commands.registerCommand("gbfix.undoApply", () => execute("gbfix.undo", activeUri())),
    vscode.commands.registerCommand("gbfix.restart", () => restart(log)),
    vscode.commands.registerCommand("gbfix.showLog", () => log.show()),
    vscode.workspace.onDidGrantWorkspaceTrust(sendSettings),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("gbfix.path") || event.affectsConfiguration("gbfix.interpreter")) {
        await restart(log);
      }
    }),
  );
  await start(log);
  show();
}

export async function deactivate(): Promise<void> {
  await client?.stop();
}

async function start(log: vscode.LogOutputChannel): Promise<void> {
  const configuration = vscode.workspace.getConfiguration("gbfix");
  const command = serverCommand(
    {
      path: configuration.get<string[]>("path", []),
      interpreter: configuration.get<string>("interpreter", ""),
    },
    await pythonOfWorkspace(),
  );
  const options: LanguageClientOptions = {
    documentSelector: [{ language: "python", scheme: "file" }, { language: "python", scheme: "untitled" }],
    outputChannel: log,
    initializationOptions: settingsFor(configuration, vscode.workspace.isTrusted),
    middleware: {
      workspace: {
        configuration: async (params, token, next) => {
          const answers = await next(params, token);
          if (!Array.isArray(answers)) {
            return answers;
          }
          return answers.map((answer, index) =>
            params.items[index]?.section === "gbfix"
              ? settingsFor(answer, vscode.workspace.isTrusted)
              : answer,
          );
        },
      },
      executeCommand: async (name, given, next) => {
        const result: unknown = await next(name, given);
        if (name === "gbfix.explain" || name === "gbfix.verify") {
          await showExplanation(result);
        }
        return result;
      },
    },
  };
  client = new LanguageClient("gbfix", "gbfix", { ...command, options: {} }, options);
  try {
    await client.start();
  } catch (error) {
    const choice = await vscode.window.showErrorMessage(startProblem(command, error), "Show Log");
    if (choice) {
      log.show();
    }
  }
}

async function restart(log: vscode.LogOutputChannel): Promise<void> {
  await client?.stop().catch(() => undefined);
  await start(log);
}

/** Trust came: the server asks for its settings again. */
async function sendSettings(): Promise<void> {
  await client?.sendNotification("workspace/didChangeConfiguration", { settings: null });
}

/** The interpreter that the Python extension has chosen, where that extension is installed. */
async function pythonOfWorkspace(): Promise<string | undefined> {
  const python = vscode.extensions.getExtension("ms-python.python");
  if (!python) {
    return undefined;
  }
  const api = await python.activate();
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const chosen = api?.environments?.getActiveEnvironmentPath?.(folder);
  const details = chosen && (await api.environments.resolveEnvironment(chosen));
  return details?.executable?.uri?.fsPath ?? undefined;
}

function activeUri(): string | undefined {
  const document = vscode.window.activeTextEditor?.document;
  return document?.languageId === "python" ? document.uri.toString() : undefined;
}

async function execute(command: string, ...given: unknown[]): Promise<unknown> {
  return client?.sendRequest("workspace/executeCommand", { command, arguments: given });
}

async function runActiveFile(show: () => void): Promise<void> {
  const document = vscode.window.activeTextEditor?.document;
  if (!document || document.languageId !== "python") {
    return;
  }
  await document.save();
  running += 1;
  show();
  try {
    const result = (await execute("gbfix.run", document.uri.toString())) as RunResult | undefined;
    const text = result ? runSummary(result) : "";
    if (text) {
      vscode.window.setStatusBarMessage(text, 10_000);
    }
  } finally {
    running -= 1;
    show();
  }
}

/** Judges what changed since the last commit; the verdict opens beside the editor. */
async function verifyChange(show: () => void): Promise<void> {
  const uri = activeUri();
  if (!uri) {
    return;
  }
  running += 1;
  show();
  try {
    await showExplanation(await execute("gbfix.verify", uri));
  } finally {
    running -= 1;
    show();
  }
}

async function explainCode(): Promise<void> {
  const code = await vscode.window.showInputBox({ prompt: "A code (GB0170), a family or a title" });
  if (code) {
    await showExplanation(await execute("gbfix.explain", code));
  }
}

async function showExplanation(result: unknown): Promise<void> {
  const markdown = (result as { markdown?: string } | undefined)?.markdown;
  if (markdown) {
    const document = await vscode.workspace.openTextDocument({ language: "markdown", content: markdown });
    await vscode.commands.executeCommand("markdown.showPreviewToSide", document.uri);
  }
}

function updateStatus(status: vscode.StatusBarItem): void {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== "python") {
    status.hide();
    return;
  }
  const found = vscode.languages.getDiagnostics(document.uri).map((item) => ({
    source: item.source,
    kind: item.severity === vscode.DiagnosticSeverity.Warning ? "warning"
      : item.severity === vscode.DiagnosticSeverity.Hint ? "hint" : "other",
  }));
  status.text = statusText(found, running > 0);
  status.tooltip = vscode.workspace.isTrusted
    ? "Run this file and validate fixes of its graph breaks"
    : "gbfix runs nothing in restricted mode";
  status.show();
}
