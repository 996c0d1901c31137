import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";
import { promisify } from "node:util";
import * as vscode from "vscode";
import { log } from "./log";
import { startSettings } from "./settings";

const run = promisify(execFile);

/** An interpreter that was asked who it is. */
export interface Interpreter {
  command: string[];
  version: [number, number, number];
  origin: string;
}

/** Thrown when no usable interpreter is there; the message says what was tried. */
export class NoInterpreter extends Error {}

export const OLDEST: [number, number] = [3, 10];

interface Candidate {
  command: string[];
  origin: string;
}

/**
 * The first usable interpreter of: the setting, the Python Environments extension, the Python extension, the PATH.
 * In a workspace that is not trusted, what the workspace chose (through the Python extensions) is left out.
 */
export async function findInterpreter(setting: string[], resource?: vscode.Uri): Promise<Interpreter> {
  const tried: string[] = [];
  for await (const candidate of candidates(setting, resource)) {
    const answer = await ask(candidate);
    if (typeof answer !== "string") {
      log.info(`interpreter ${candidate.command.join(" ")} (${answer.version.join(".")}), from ${candidate.origin}`);
      return answer;
    }
    tried.push(`${candidate.command.join(" ")} (${candidate.origin}): ${answer}`);
    log.info(`not usable: ${tried.at(-1)}`);
    if (candidate.origin === "the setting gradline.interpreter") {
      break; // somebody named it: another one in its place would only confuse
    }
  }
  throw new NoInterpreter(`no Python ${OLDEST.join(".")} or newer to run the server. Tried: ${tried.join("; ")}`);
}

/**
 * The Python that the user's own programs run with: the setting, what the Python extensions have selected, a virtual
 * environment in the workspace's folder, the setting for the server. Undefined: whatever the terminal would take.
 */
export async function programInterpreter(setting: string, resource?: vscode.Uri): Promise<string | undefined> {
  const selected = setting || (await fromEnvironments(resource)) || (await fromPython(resource));
  if (selected) {
    return selected;
  }
  const folder = resource && vscode.workspace.getWorkspaceFolder(resource)?.uri.fsPath;
  for (const name of folder ? [".venv", "venv"] : []) {
    const inner = process.platform === "win32" ? ["Scripts", "python.exe"] : ["bin", "python"];
    const program = path.join(folder ?? "", name, ...inner);
    if (fs.existsSync(program)) {
      return program;
    }
  }
  return startSettings().interpreter[0];
}

async function* candidates(setting: string[], resource?: vscode.Uri): AsyncGenerator<Candidate> {
  if (setting.length > 0) {
    yield { command: setting, origin: "the setting gradline.interpreter" };
    return;
  }
  if (vscode.workspace.isTrusted) {
    const environments = await fromEnvironments(resource);
    if (environments) {
      yield { command: [environments], origin: "the Python Environments extension" };
    }
    const selected = await fromPython(resource);
    if (selected) {
      yield { command: [selected], origin: "the Python extension" };
    }
  }
  if (process.platform === "win32") {
    yield { command: ["py", "-3"], origin: "the PATH" };
  }
  yield { command: ["python3"], origin: "the PATH" };
  yield { command: ["python"], origin: "the PATH" };
}

async function ask(candidate: Candidate): Promise<Interpreter | string> {
  const [program, ...rest] = candidate.command;
  if (!program) {
    return "no program";
  }
  try {
    const code = "import sys; print(*sys.version_info[:3])";
    const { stdout } = await run(program, [...rest, "-I", "-c", code], { timeout: 20_000, windowsHide: true });
    const numbers = stdout.trim().split(" ").map(Number);
    const [major, minor, micro] = numbers;
    if (major === undefined || minor === undefined || micro === undefined || numbers.some(Number.isNaN)) {
      return `it answered ${JSON.stringify(stdout.slice(0, 80))}`;
    }
    if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
      return `it is Python ${major}.${minor}`;
    }
    return { ...candidate, version: [major, minor, micro] };
  } catch (error) {
    const failure = error as NodeJS.ErrnoException;
    return failure.code === "ENOENT" ? "not found" : String(failure.message).split("\n")[0] ?? "it failed";
  }
}

// The little of the two extensions' interfaces that is used here.
interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<{ execInfo?: { run?: { executable?: string } } } | undefined>;
  onDidChangeEnvironment?: vscode.Event<unknown>;
}
interface PythonApi {
  environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(path: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

async function api<Api>(id: string): Promise<Api | undefined> {
  const extension = vscode.extensions.getExtension<Api>(id);
  if (!extension) {
    return undefined;
  }
  try {
    return extension.isActive ? extension.exports : await extension.activate();
  } catch (error) {
    log.warn(`${id} did not start: ${error}`);
    return undefined;
  }
}

async function fromEnvironments(resource?: vscode.Uri): Promise<string | undefined> {
  const environments = await api<EnvironmentsApi>("ms-python.vscode-python-envs");
  try {
    return (await environments?.getEnvironment?.(resource))?.execInfo?.run?.executable;
  } catch (error) {
    log.warn(`the Python Environments extension did not answer: ${error}`);
    return undefined;
  }
}

async function fromPython(resource?: vscode.Uri): Promise<string | undefined> {
  const python = (await api<PythonApi>("ms-python.python"))?.environments;
  try {
    const active = python?.getActiveEnvironmentPath(resource);
    return active && (await python?.resolveEnvironment(active))?.executable.uri?.fsPath;
  } catch (error) {
    log.warn(`the Python extension did not answer: ${error}`);
    return undefined;
  }
}

/** Calls `changed` when another environment is selected in one of the Python extensions. */
export async function onInterpreterChange(changed: () => void): Promise<vscode.Disposable> {
  const events = [
    (await api<EnvironmentsApi>("ms-python.vscode-python-envs"))?.onDidChangeEnvironment,
    (await api<PythonApi>("ms-python.python"))?.environments?.onDidChangeActiveEnvironmentPath,
  ];
  return vscode.Disposable.from(...events.filter((event) => event !== undefined).map((event) => event(changed)));
}
