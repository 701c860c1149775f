// What the extension decides, without the editor's API: tested by itself.

export interface Configuration {
  path: string[];
  interpreter: string;
}

export interface Command {
  command: string;
  args: string[];
}

/** How to start the server: the configured command, else gbfix in a Python environment, else PATH. */
export function serverCommand(configured: Configuration, environment: string | undefined): Command {
  const [command, ...args] = configured.path;
  if (command) {
    return { command, args: [...args, "lsp"] };
  }
  const python = configured.interpreter || environment;
  if (python) {
    // -P: the workspace's own folder must not provide modules.
    return { command: python, args: ["-P", "-m", "gbfix", "lsp"] };
  }
  return { command: "gbfix", args: ["lsp"] };
}

/** The section that the server sees: the user's settings, and whether the workspace is trusted. */
export function settingsFor(section: unknown, trusted: boolean): Record<string, unknown> {
  const known = section !== null && typeof section === "object" ? section : {};
  return { ...known, trusted, showsExplanations: true };
}

export interface Seen {
  source?: string;
  kind?: string;
}

/** The status bar's words for the diagnostics of the file in front. */
export function statusText(found: readonly Seen[], running: boolean): string {
  if (running) {
    return "$(sync~spin) gbfix";
  }
  const own = found.filter((item) => item.source === "gbfix");
  const measured = own.filter((item) => item.kind === "warning").length;
  const likely = own.filter((item) => item.kind === "hint").length;
  if (measured > 0) {
    return `$(warning) gbfix: ${count(measured, "graph break")}`;
  }
  if (likely > 0) {
    return `$(question) gbfix: ${likely} likely`;
  }
  return "$(check) gbfix";
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

export interface RunResult {
  status: "done" | "cancelled" | "error";
  breaks?: number;
  fixed?: number;
  regions?: number;
}

/** One line about a run that was asked for; empty where the server has told already. */
export function runSummary(result: RunResult): string {
  if (result.status !== "done") {
    return "";
  }
  const regions = count(result.regions ?? 0, "region");
  if (!result.breaks) {
    return `gbfix: no graph breaks in ${regions}`;
  }
  return `gbfix: ${count(result.breaks, "graph break")} in ${regions}, ${result.fixed ?? 0} with a validated fix`;
}

/** What to tell when the server cannot be started. */
export function startProblem(command: Command, error: unknown): string {
  const shown = [command.command, ...command.args].join(" ");
  const why = error instanceof Error ? error.message : String(error);
  return `gbfix: could not start \`${shown}\` (${why}). Install gbfix beside torch, or set gbfix.path.`;
}
