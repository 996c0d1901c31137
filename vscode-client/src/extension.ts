import * as vscode from "vscode";
import { openExample } from "./example";
import { Explain } from "./explain";
import { GradientLine } from "./gradientLine";
import { onInterpreterChange } from "./interpreter";
import { installLibcst } from "./libcst";
import { log } from "./log";
import { Probe } from "./probe";
import { Server } from "./server";
import type { About } from "./server";
import { affectsStart, startSettings } from "./settings";
import { Traceback } from "./traceback";
import { Trail } from "./trail";

let server: Server | undefined;

/** What other extensions, and tests, may ask. */
export interface Api {
  /** Resolves when the start or restart in progress is over. */
  ready(): Promise<void>;
  /** What the server says of itself; undefined if it does not run. */
  about(): Promise<About | undefined>;
}

export function activate(context: vscode.ExtensionContext): Api {
  const running = new Server(context);
  server = running;
  const line = new GradientLine(context);
  let starting = Promise.resolve();
  const restart = (): Promise<void> => (starting = running.restart());

  context.subscriptions.push(
    log,
    line,
    new Explain(running).register(),
    new Traceback(running).register(),
    new Trail(),
    new Probe(context, running),
    running.onStarted((client) => line.connect(client)),
    vscode.commands.registerCommand("gradline.restart", restart),
    vscode.commands.registerCommand("gradline.showLog", () => log.show()),
    vscode.commands.registerCommand("gradline.goToOrigin", () => line.goToOrigin()),
    vscode.commands.registerCommand("gradline.openExample", () => openExample(context)),
    vscode.commands.registerCommand("gradline.installLibcst", () => installLibcst(running)),
    vscode.commands.registerCommand("gradline.debugInformation", () => debugInformation(context, running)),
    vscode.commands.registerCommand("gradline.showPlaces", (uri: string, position: WirePosition, places: WirePlace[]) =>
      showPlaces(running, uri, position, places),
    ),
    vscode.commands.registerCommand("gradline.openPlace", (uri: string, line: number, character: number) =>
      vscode.window.showTextDocument(vscode.Uri.parse(uri, true), { selection: new vscode.Range(line, character, line, character) }),
    ),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (affectsStart(event)) {
        void restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );

  void vscode.commands.executeCommand("setContext", "gradline.active", true);

  // the window comes first: nothing is started within its activation
  setImmediate(() => {
    void restart()
      .then(() => onInterpreterChange(() => void running.restartIfOther()))
      .then((subscription) => context.subscriptions.push(subscription));
  });
  return {
    ready: async () => {
      await new Promise(setImmediate);
      await starting;
    },
    about: () => running.about(),
  };
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}

interface WirePosition {
  line: number;
  character: number;
}
interface WirePlace {
  uri: string;
  range: { start: WirePosition; end: WirePosition };
}

async function showPlaces(running: Server, uri: string, position: WirePosition, places: WirePlace[]): Promise<void> {
  const converter = running.client?.protocol2CodeConverter;
  if (converter) {
    await vscode.commands.executeCommand(
      "editor.action.showReferences",
      converter.asUri(uri),
      converter.asPosition(position),
      places.map((place) => converter.asLocation(place)),
    );
  }
}

async function debugInformation(context: vscode.ExtensionContext, running: Server): Promise<void> {
  const about = {
    extension: context.extension.packageJSON.version as string,
    vscode: vscode.version,
    platform: `${process.platform} ${process.arch}`,
    remote: vscode.env.remoteName ?? "no",
    trusted: vscode.workspace.isTrusted,
    interpreter: running.interpreter,
    server: await running.about(),
    settings: startSettings(),
  };
  const content = JSON.stringify(about, null, 2);
  await vscode.window.showTextDocument(await vscode.workspace.openTextDocument({ language: "json", content }));
}
