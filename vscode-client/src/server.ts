import * as fs from "node:fs";
import * as path from "node:path";
import * as vscode from "vscode";
import { LanguageClient, RevealOutputChannelOn, State } from "vscode-languageclient/node";
import type { Executable, LanguageClientOptions } from "vscode-languageclient/node";
import { findInterpreter, NoInterpreter } from "./interpreter";
import type { Interpreter } from "./interpreter";
import { log } from "./log";
import { SECTION, startSettings } from "./settings";
import type { StartSettings } from "./settings";

/** Commands of this client that the server may put into its answers. */
export const SERVER_COMMANDS = ["gradline.showPlaces", "gradline.installLibcst", "gradline.probe"];

const STOP_MS = 2000;

/** The answer to `gradline/about`. */
export interface About {
  version: string;
  pid: number;
  python: string;
  executable: string;
  libcst: string | null;
  folder: string;
}

/** The server's process and the client that speaks with it; restarts are made one after the other. */
export class Server {
  client: LanguageClient | undefined;
  interpreter: Interpreter | undefined;
  private command = ""; // what runs, to see whether something else should
  private queue: Promise<void> = Promise.resolve();
  private queued = false;
  private readonly status: vscode.LanguageStatusItem;
  private readonly started = new vscode.EventEmitter<LanguageClient>();

  /** Fired with the new client after each start. */
  readonly onStarted = this.started.event;

  constructor(private readonly context: vscode.ExtensionContext) {
    this.status = vscode.languages.createLanguageStatusItem("gradline.status", { language: "python" });
    this.status.name = "gradline";
    this.status.command = { command: "gradline.showLog", title: vscode.l10n.t("Show Log") };
    this.say(vscode.l10n.t("not started"), false, true);
    context.subscriptions.push(this.status, this.started);
  }

  /** Stops the server if it runs and starts it. Of several calls that wait, one is enough. */
  restart(): Promise<void> {
    if (!this.queued) {
      this.queued = true;
      this.queue = this.queue.then(async () => {
        this.queued = false;
        await this.stopNow();
        await this.startNow();
      });
    }
    return this.queue;
  }

  /** Restarts if what would be started is not what runs. */
  async restartIfOther(): Promise<void> {
    await this.queue;
    const executable = await this.executable().catch(() => undefined);
    if (executable && describe(executable) !== this.command) {
      await this.restart();
    }
  }

  stop(): Promise<void> {
    this.queue = this.queue.then(() => this.stopNow());
    return this.queue;
  }

  /** What the server says of itself; undefined if it does not run. */
  async about(): Promise<About | undefined> {
    return this.client?.isRunning() ? this.client.sendRequest<About>("gradline/about", {}) : undefined;
  }

  /** Where packages that were installed for this interpreter by the extension are. */
  packages(interpreter: Interpreter): string {
    return path.join(this.context.globalStorageUri.fsPath, `python${interpreter.version.slice(0, 2).join(".")}`);
  }

  private async startNow(): Promise<void> {
    let executable: Executable;
    try {
      executable = await this.executable();
    } catch (error) {
      this.say(vscode.l10n.t("no interpreter"), false, true);
      void this.complain(error);
      return;
    }
    this.command = describe(executable);
    log.info(`starting ${this.command}`);
    const client = new LanguageClient(SECTION, "gradline", executable, this.options());
    client.onDidChangeState(({ newState }) => {
      this.say(stateName(newState), newState === State.Starting, newState === State.Stopped);
    });
    this.client = client;
    try {
      await client.start();
      this.started.fire(client);
    } catch (error) {
      void this.complain(error);
    }
  }

  private async stopNow(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    this.command = "";
    await client?.dispose(STOP_MS).catch((error: unknown) => log.warn(`stopping: ${error}`));
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: "file", language: "python" },
        { scheme: "untitled", language: "python" },
        { scheme: "vscode-notebook-cell", language: "python" },
      ],
      outputChannel: log,
      traceOutputChannel: log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      // pushed: the client asks only for the documents that it shows, and every two seconds for all others, while a
      // finding and its origin are often in two files
      middleware: {
        provideInlayHints: async (document, range, token, next) => (await next(document, range, token))?.map(goThere),
        resolveInlayHint: async (hint, token, next) => {
          const resolved = await next(hint, token);
          return resolved && goThere(resolved);
        },
      },
      initializationOptions: { commands: SERVER_COMMANDS, diagnostics: "push", lines: true, probe: vscode.workspace.isTrusted },
    };
  }

  private async executable(): Promise<Executable> {
    const settings = startSettings();
    const env: NodeJS.ProcessEnv = { ...process.env, PYTHONUTF8: "1" };
    const options = { env, cwd: this.context.extensionPath };
    if (vscode.workspace.isTrusted) {
      const own = settings.path.find((program) => fs.existsSync(program));
      if (own) {
        return { command: own, args: ["server"], options };
      }
      if (settings.path.length > 0) {
        log.warn(`none of gradline.path exists: ${settings.path.join(", ")}`);
      }
    }
    this.interpreter = await this.find(settings.interpreter);
    return { ...this.startWith(this.interpreter, settings.importStrategy), options };
  }

  /** The command `gradline` with these arguments, by the interpreter that runs the server. It ends with its standard input. */
  async commandLine(args: string[]): Promise<{ command: string; args: string[] }> {
    const settings = startSettings();
    const interpreter = this.interpreter ?? (await this.find(settings.interpreter));
    const start = this.startWith(interpreter, settings.importStrategy);
    return { command: start.command, args: [...start.args, ...args] };
  }

  private find(setting: string[]): Promise<Interpreter> {
    return findInterpreter(setting, vscode.workspace.workspaceFolders?.[0]?.uri);
  }

  private startWith(interpreter: Interpreter, wanted: StartSettings["importStrategy"]): { command: string; args: string[] } {
    const [command = "python3", ...before] = interpreter.command;
    const strategy = vscode.workspace.isTrusted ? wanted : "useBundled";
    const bundled = path.join(this.context.extensionPath, "bundled");
    const start = path.join(bundled, "start.py");
    return { command, args: [...before, start, strategy, path.join(bundled, "libs"), this.packages(interpreter)] };
  }

  private say(text: string, busy: boolean, failed: boolean): void {
    this.status.text = `gradline: ${text}`;
    this.status.busy = busy;
    this.status.severity = failed
      ? vscode.LanguageStatusSeverity.Warning
      : vscode.LanguageStatusSeverity.Information;
  }

  /** The one place that tells the user that the server does not run. */
  private async complain(error: unknown): Promise<void> {
    log.error(String(error));
    const settings = vscode.l10n.t("Open Settings");
    const show = vscode.l10n.t("Show Log");
    const what = error instanceof NoInterpreter ? error.message : vscode.l10n.t("the server did not start: {0}", String(error));
    const choice = await vscode.window.showErrorMessage(`gradline: ${what}`, settings, show);
    if (choice === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "gradline.interpreter");
    } else if (choice === show) {
      log.show();
    }
  }
}

function stateName(state: State): string {
  switch (state) {
    case State.Starting:
      return vscode.l10n.t("starting");
    case State.Running:
      return vscode.l10n.t("running");
    case State.Stopped:
      return vscode.l10n.t("stopped");
    case State.StartFailed:
      return vscode.l10n.t("did not start");
  }
}

/** A click on a part of a hint goes to its place; VS Code would look for the definition of what is named there. */
function goThere(hint: vscode.InlayHint): vscode.InlayHint {
  for (const part of typeof hint.label === "string" ? [] : hint.label) {
    if (part.location) {
      // plain values: a hint goes to the server and back to be completed
      const { uri, range: { start } } = part.location;
      part.command = { command: "gradline.openPlace", title: vscode.l10n.t("Go There"), arguments: [uri.toString(), start.line, start.character] };
      part.location = undefined;
    }
  }
  return hint;
}

function describe(executable: Executable): string {
  return [executable.command, ...(executable.args ?? [])].join(" ");
}
