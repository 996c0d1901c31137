import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { SECTION } from "./settings";

interface WireRange {
  start: { line: number; character: number };
  end: { line: number; character: number };
}
interface Region {
  range: WireRange;
  mode: "on" | "off" | "inference" | "unknown";
  note: string;
  origin: { uri: string; range: WireRange } | null;
}
interface Lines {
  regions: Region[];
  cuts: WireRange[];
}

function shown(mode: Region["mode"]): string {
  switch (mode) {
    case "on":
      return `$(circle-filled) ${vscode.l10n.t("grad on")}`;
    case "off":
      return `$(circle-slash) ${vscode.l10n.t("grad off")}`;
    case "inference":
      return `$(circle-slash) ${vscode.l10n.t("inference")}`;
    case "unknown":
      return `$(circle-outline) ${vscode.l10n.t("grad ?")}`;
  }
}

/** Draws the gradient line beside the code, and says in the status bar what grad mode the cursor is in. */
export class GradientLine implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private readonly known = new Map<string, Lines>();
  private readonly on: vscode.TextEditorDecorationType;
  private readonly off: vscode.TextEditorDecorationType;
  private readonly cut: vscode.TextEditorDecorationType;
  private readonly word: vscode.TextEditorDecorationType;
  private readonly item: vscode.StatusBarItem;
  private readonly disposables: vscode.Disposable[] = [];

  constructor(context: vscode.ExtensionContext) {
    const icon = (name: string): vscode.TextEditorDecorationType =>
      vscode.window.createTextEditorDecorationType({
        gutterIconPath: vscode.Uri.joinPath(context.extensionUri, "vscode-client", "images", `line-${name}.svg`),
        gutterIconSize: "contain",
      });
    this.on = icon("on");
    this.off = icon("off");
    this.cut = vscode.window.createTextEditorDecorationType({
      gutterIconPath: vscode.Uri.joinPath(context.extensionUri, "vscode-client", "images", "line-cut.svg"),
      gutterIconSize: "contain",
      overviewRulerColor: new vscode.ThemeColor("gradline.lineCut"),
      overviewRulerLane: vscode.OverviewRulerLane.Left,
    });
    this.word = vscode.window.createTextEditorDecorationType({
      color: new vscode.ThemeColor("gradline.lineCut"),
      fontWeight: "bold",
    });
    this.item = vscode.window.createStatusBarItem("gradline.mode", vscode.StatusBarAlignment.Right, 90);
    this.item.name = "gradline: grad mode";
    this.item.command = "gradline.goToOrigin";
    this.disposables.push(
      this.on,
      this.off,
      this.cut,
      this.word,
      this.item,
      vscode.window.onDidChangeActiveColorTheme(() => vscode.window.visibleTextEditors.forEach((editor) => this.draw(editor))),
      vscode.window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => void this.update(editor))),
      vscode.window.onDidChangeActiveTextEditor(() => this.showMode()),
      vscode.window.onDidChangeTextEditorSelection(() => this.showMode()),
      vscode.workspace.onDidCloseTextDocument((document) => this.known.delete(document.uri.toString())),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(`${SECTION}.gutter`) || event.affectsConfiguration(`${SECTION}.statusBar`)) {
          this.updateAll();
        }
      }),
    );
  }

  /** To be called with each new client. */
  connect(client: LanguageClient): void {
    this.client = client;
    this.known.clear();
    this.disposables.push(
      client.onNotification("gradline/linesChanged", ({ uri }: { uri: string }) => {
        const changed = client.protocol2CodeConverter.asUri(uri).toString();
        for (const editor of vscode.window.visibleTextEditors) {
          if (editor.document.uri.toString() === changed) {
            void this.update(editor);
          }
        }
      }),
    );
    this.updateAll();
  }

  dispose(): void {
    vscode.Disposable.from(...this.disposables).dispose();
  }

  /** Shows where the grad mode at the cursor was set. */
  async goToOrigin(): Promise<void> {
    const region = this.regionAtCursor();
    if (!region?.origin || !this.client) {
      void vscode.window.showInformationMessage("gradline: grad mode is not set from elsewhere here.");
      return;
    }
    const { uri, range } = region.origin;
    const converter = this.client.protocol2CodeConverter;
    await vscode.window.showTextDocument(converter.asUri(uri), { selection: converter.asRange(range) });
  }

  private updateAll(): void {
    for (const editor of vscode.window.visibleTextEditors) {
      void this.update(editor);
    }
  }

  private async update(editor: vscode.TextEditor): Promise<void> {
    const document = editor.document;
    const client = this.client;
    if (document.languageId !== "python" || !client?.isRunning()) {
      return;
    }
    const uri = client.code2ProtocolConverter.asUri(document.uri);
    const version = document.version;
    let lines: Lines | null;
    try {
      lines = await client.sendRequest<Lines | null>("gradline/lines", { textDocument: { uri } });
    } catch {
      return; // the server stops or restarts; it will be asked again
    }
    if (document.version !== version) {
      return; // a newer text is on its way, and a newer answer with it
    }
    this.known.set(document.uri.toString(), lines ?? { regions: [], cuts: [] });
    this.draw(editor);
    this.showMode();
  }

  private draw(editor: vscode.TextEditor): void {
    const wanted = vscode.workspace.getConfiguration(SECTION).get<boolean>("gutter", true);
    const lines = wanted ? this.known.get(editor.document.uri.toString()) : undefined;
    const cut = new Set((lines?.cuts ?? []).map((range) => range.start.line));
    const modes = new Map<number, Region["mode"]>();
    for (const region of lines?.regions ?? []) {
      for (let line = region.range.start.line; line <= region.range.end.line; line++) {
        modes.set(line, region.mode); // an inner region comes after the one around it
      }
    }
    const of = (...some: Region["mode"][]): vscode.Range[] =>
      [...modes].filter(([line, mode]) => some.includes(mode) && !cut.has(line)).map(([line]) => lineRange(line));
    editor.setDecorations(this.on, of("on"));
    editor.setDecorations(this.off, of("off", "inference"));
    editor.setDecorations(this.cut, [...cut].map(lineRange));
    // the built-in light high-contrast theme alone has no colours for semantic tokens
    const isPlain = vscode.window.activeColorTheme.kind === vscode.ColorThemeKind.HighContrastLight;
    const words = isPlain ? (this.known.get(editor.document.uri.toString())?.cuts ?? []) : [];
    editor.setDecorations(
      this.word,
      words.map(({ start, end }) => new vscode.Range(start.line, start.character, end.line, end.character)),
    );
  }

  private regionAtCursor(): Region | undefined {
    const editor = vscode.window.activeTextEditor;
    const line = editor?.selection.active.line;
    const lines = editor && this.known.get(editor.document.uri.toString());
    return lines?.regions.findLast(({ range }) => line !== undefined && range.start.line <= line && line <= range.end.line);
  }

  private showMode(): void {
    const region = this.regionAtCursor();
    if (!region || !vscode.workspace.getConfiguration(SECTION).get<boolean>("statusBar", true)) {
      this.item.hide();
      return;
    }
    this.item.text = shown(region.mode);
    this.item.tooltip = region.origin ? `${region.note}\n${vscode.l10n.t("Click to go there")}` : region.note;
    this.item.show();
  }
}

function lineRange(line: number): vscode.Range {
  return new vscode.Range(line, 0, line, 0);
}
