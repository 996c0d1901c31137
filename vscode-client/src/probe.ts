import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import * as fs from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { programInterpreter } from "./interpreter";
import { log } from "./log";
import { showReport } from "./report";
import type { Server } from "./server";
import { probeSettings } from "./settings";
import { targetAt } from "./target";
import type { Target } from "./target";

const GRACE_MS = 15_000; // what a cancelled run may take to write its report before it is killed
const ARGUMENTS = "gradline.arguments:"; // workspace state: what a program was given the last time

interface Plan {
  target: Target;
  /** Of the program, as they were typed. */
  given: string;
  options: string[];
  /** The command that will run, for people to read. */
  shown: string;
}

interface Answer {
  page: string;
  title: string;
  current: boolean;
  verdicts: Record<string, number>;
  findings: number;
}

/** Runs the user's program under `gradline probe`, after asking, and shows what comes back. One run at a time. */
export class Probe implements vscode.Disposable {
  private run: Run | undefined;
  private terminal: vscode.Terminal | undefined;
  private readonly disposables: vscode.Disposable[];

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly server: Server,
  ) {
    this.disposables = [
      vscode.commands.registerCommand("gradline.probe", (uri?: vscode.Uri | string, line?: number) => this.probe(uri, line)),
      vscode.commands.registerCommand("gradline.cancelProbe", () => this.run?.cancel()),
      vscode.commands.registerCommand("gradline.showProbeReport", () => this.showLast()),
      vscode.commands.registerCommand("gradline.openProbeReport", () => this.openOther()),
    ];
  }

  dispose(): void {
    this.run?.cancel();
    vscode.Disposable.from(...this.disposables).dispose();
  }

  private async probe(given?: vscode.Uri | string, line?: number): Promise<void> {
    if (!vscode.workspace.isTrusted) {
      const manage = vscode.l10n.t("Manage Workspace Trust");
      const text = vscode.l10n.t("gradline: the probe runs your program, which it never does in a workspace that is not trusted.");
      if ((await vscode.window.showWarningMessage(text, manage)) === manage) {
        await vscode.commands.executeCommand("workbench.trust.manage");
      }
      return;
    }
    if (this.run) {
      void vscode.window.showInformationMessage(vscode.l10n.t("gradline: a probe runs already; cancel it first."));
      return;
    }
    const uri = typeof given === "string" ? vscode.Uri.parse(given, true) : given;
    const target = targetAt(uri, line);
    if (typeof target === "string") {
      void vscode.window.showInformationMessage(`gradline: ${target}`);
      return;
    }
    if (!(await vscode.workspace.saveAll(false))) {
      void vscode.window.showWarningMessage(vscode.l10n.t("gradline: not every file could be saved, and the program would read them."));
      return;
    }
    try {
      const plan = await this.agreed(target);
      if (plan) {
        await this.start(plan);
      }
    } catch (error) {
      await this.complain(error instanceof Error ? error.message : String(error));
    }
  }

  /** What is to be run, after the user has seen the command line and agreed; undefined: not. */
  private async agreed(target: Target): Promise<Plan | undefined> {
    let given = this.context.workspaceState.get<string>(ARGUMENTS + target.key, "");
    const run = vscode.l10n.t("Run");
    const change = vscode.l10n.t("Change Arguments…");
    for (;;) {
      const plan = await this.plan(target, given);
      const detail = [
        plan.shown,
        vscode.l10n.t("in {0}", target.cwd),
        vscode.l10n.t(
          "It is run as it is, through its first {0}, and then ended. What it writes into its project is kept apart where the system allows it; the report says how, and what was written.",
          steps(plan.options),
        ),
      ].join("\n\n");
      const question = vscode.l10n.t("Run {0} and watch its gradients?", target.label);
      const choice = await vscode.window.showInformationMessage(question, { modal: true, detail }, run, change);
      if (choice === run) {
        return plan;
      }
      if (choice !== change) {
        return undefined;
      }
      const title = vscode.l10n.t("Arguments for {0}", target.label);
      const typed = await vscode.window.showInputBox({ title, value: given, placeHolder: "--epochs 1", ignoreFocusOut: true });
      if (typed !== undefined) {
        given = typed.trim();
        await this.context.workspaceState.update(ARGUMENTS + target.key, given);
      }
    }
  }

  private async plan(target: Target, given: string): Promise<Plan> {
    const settings = probeSettings(target.uri);
    const python = await programInterpreter(settings.interpreter, target.uri);
    const options = [...settings.options, "--cwd", target.cwd, ...(python ? ["--python", python] : [])];
    const program = [...target.words(settings.launcher), ...words(given)];
    options.push(...program);
    const cli = await this.server.commandLine(["probe", "--show-command", ...options]);
    const shown = await new Promise<string>((resolve, reject) => {
      const child = execFile(cli.command, cli.args, { timeout: 60_000, windowsHide: true }, (error, stdout, stderr) =>
        error ? reject(new Error(last(stderr) || error.message)) : resolve(stdout.trim()),
      );
      child.stdin?.on("error", () => undefined);
    });
    return { target, given, options, shown };
  }

  private async start(plan: Plan): Promise<void> {
    const folder = await this.folder();
    const report = path.join(folder, "report.json");
    await fs.rm(report, { force: true });
    const own = ["--json", report, "--quiet"];
    const claims = await this.server.client?.sendRequest<unknown[]>("gradline/findings", {}).catch(() => undefined);
    if (claims) {
      const file = path.join(folder, "findings.json");
      await fs.writeFile(file, JSON.stringify(claims));
      own.push("--findings", file);
    }
    const cli = await this.server.commandLine(["probe", ...own, ...plan.options]);
    const since = Date.now() / 1000;
    const run = new Run(cli.command, cli.args, plan.target.cwd, plan.shown);
    this.run = run;
    void vscode.commands.executeCommand("setContext", "gradline.probing", true);
    this.terminal?.dispose();
    this.terminal = vscode.window.createTerminal({ name: "gradline probe", pty: run, iconPath: new vscode.ThemeIcon("pulse") });
    this.terminal.show(true);
    const title = `gradline probe: ${plan.target.label}`;
    try {
      await vscode.window.withProgress(
        { location: vscode.ProgressLocation.Notification, title, cancellable: true },
        async (progress, token) => {
          token.onCancellationRequested(() => run.cancel());
          const begun = Date.now();
          const tick = setInterval(() => {
            progress.report({ message: vscode.l10n.t("running for {0} s", Math.round((Date.now() - begun) / 1000)) });
          }, 1000);
          await run.ended.finally(() => clearInterval(tick));
        },
      );
    } finally {
      this.run = undefined;
      void vscode.commands.executeCommand("setContext", "gradline.probing", false);
    }
    const there = await fs.stat(report).then(() => true, () => false);
    if (there) {
      await this.context.workspaceState.update("gradline.lastProbe", since);
      await this.show(report, since);
    } else if (!run.isCancelled) {
      throw new Error(run.said || vscode.l10n.t("the probe ended without a report"));
    }
  }

  /** Shows a report, and its verdicts beside the code. */
  private async show(report: string, since: number): Promise<void> {
    const client = this.server.client;
    if (!client?.isRunning()) {
      void vscode.window.showWarningMessage(vscode.l10n.t("gradline: the server does not run, so the report cannot be shown."));
      return;
    }
    const nonce = randomBytes(16).toString("hex");
    const answer = await client.sendRequest<Answer>("gradline/probeReport", { path: report, since, nonce });
    showReport(answer.title, answer.page);
    const counts = Object.entries(answer.verdicts).map(([name, count]) => `${count} ${name}`);
    const seen = `${answer.findings} finding${answer.findings === 1 ? "" : "s"} of the run`;
    log.info(`probe: ${seen}; static findings: ${counts.join(", ") || "none"}`);
    if (!answer.current) {
      void vscode.window.showInformationMessage(
        vscode.l10n.t("gradline: the code has changed since the program was started, so verdicts are in the report alone."),
      );
    }
  }

  private async showLast(): Promise<void> {
    const since = this.context.workspaceState.get<number>("gradline.lastProbe");
    const report = path.join(await this.folder(), "report.json");
    if (since === undefined || !(await fs.stat(report).then(() => true, () => false))) {
      void vscode.window.showInformationMessage(vscode.l10n.t("gradline: nothing was probed in this workspace yet."));
      return;
    }
    await this.show(report, since).catch((error: unknown) => this.complain(String(error)));
  }

  /** A report that `gradline probe --json` wrote elsewhere, on a cluster for instance. */
  private async openOther(): Promise<void> {
    const filters = { "JSON of gradline probe": ["json"] };
    const [chosen] = (await vscode.window.showOpenDialog({ filters, title: vscode.l10n.t("Open a Report of gradline probe") })) ?? [];
    if (chosen) {
      const { mtimeMs } = await fs.stat(chosen.fsPath);
      await this.show(chosen.fsPath, mtimeMs / 1000).catch((error: unknown) => this.complain(String(error)));
    }
  }

  private async folder(): Promise<string> {
    const folder = path.join((this.context.storageUri ?? this.context.globalStorageUri).fsPath, "probe");
    await fs.mkdir(folder, { recursive: true });
    return folder;
  }

  private async complain(message: string): Promise<void> {
    log.error(`probe: ${message}`);
    const settings = vscode.l10n.t("Open Settings");
    const text = `gradline: ${message.replace(/^gradline probe: /, "")}`;
    if ((await vscode.window.showErrorMessage(text, settings)) === settings) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "gradline.probe");
    }
  }
}

/** The process of a run, and the terminal that shows what the program says. */
class Run implements vscode.Pseudoterminal {
  isCancelled = false;
  said = ""; // the last line on standard error
  readonly ended: Promise<void>;
  private readonly written = new vscode.EventEmitter<string>();
  private readonly child: ChildProcess;
  private early: string[] | undefined = []; // before the terminal is open
  readonly onDidWrite = this.written.event;

  constructor(command: string, args: string[], cwd: string, shown: string) {
    log.info(`probe: ${[command, ...args].join(" ")}`);
    this.write(`\x1b[1m${shown}\x1b[0m\n`);
    // a process group of its own; it ends when its standard input does, so also when this process is killed
    const detached = process.platform !== "win32";
    this.child = spawn(command, args, { cwd, detached, stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    this.child.stdin?.on("error", () => undefined);
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => this.write(text));
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.said = last(text) || this.said;
      this.write(text);
    });
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("close", (code, signal) => {
        this.write(`\n\x1b[2m${this.isCancelled ? "cancelled" : `ended (${signal ?? code})`}\x1b[0m\n`);
        resolve();
      });
    });
    this.ended.catch(() => undefined); // whoever waits for it is told
  }

  open(): void {
    const early = this.early ?? [];
    this.early = undefined;
    early.forEach((text) => this.written.fire(text));
  }

  close(): void {
    this.cancel();
  }

  handleInput(text: string): void {
    if (text === "\x03") {
      this.cancel();
    }
  }

  /** Ends the program with all that it has started; its report is still written. */
  cancel(): void {
    if (this.isCancelled || this.child.exitCode !== null || this.child.signalCode !== null) {
      return;
    }
    this.isCancelled = true;
    this.child.stdin?.end();
    setTimeout(() => {
      if (this.child.exitCode === null && this.child.signalCode === null && this.child.pid) {
        log.warn("probe: the run does not end, it is killed");
        try {
          process.kill(process.platform === "win32" ? this.child.pid : -this.child.pid, "SIGKILL");
        } catch (error) {
          log.warn(`probe: ${error}`);
        }
      }
    }, GRACE_MS).unref();
  }

  private write(text: string): void {
    const lines = text.replace(/\r?\n/g, "\r\n");
    if (this.early) {
      this.early.push(lines);
    } else {
      this.written.fire(lines);
    }
  }
}

function last(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}

function steps(options: string[]): string {
  const at = options.indexOf("--steps");
  const count = at < 0 ? "2" : (options[at + 1] ?? "2");
  return count === "1" ? vscode.l10n.t("optimizer step") : vscode.l10n.t("{0} optimizer steps", count);
}

/** Words of a command line as a person types it: quotes keep spaces, nothing else is special. */
export function words(text: string): string[] {
  const found = text.match(/(?:[^\s"']+|"[^"]*"|'[^']*')+/g) ?? [];
  return found.map((word) => word.replace(/"([^"]*)"|'([^']*)'/g, (_, double?: string, single?: string) => double ?? single ?? ""));
}
