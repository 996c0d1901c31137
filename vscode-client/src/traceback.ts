import * as os from "node:os";
import * as vscode from "vscode";
import type { Location } from "vscode-languageclient";
import { log } from "./log";
import type { Server } from "./server";

const SCHEME = "gradline-why";
const LONGEST = 200_000; // characters of a terminal or a selection that are looked at, from the end
const START = "Traceback (most recent call last):";

// The errors of autograd, as the last line of a traceback shows them. The server knows more; these become links.
const ERRORS = new RegExp(
  [
    "element \\d+ of tensors does not require grad",
    "grad can be implicitly created only for scalar outputs",
    "[Tt]rying to backward through the graph a second time",
    "has been modified by an inplace operation",
    "a leaf [Vv]ariable that requires grad",
    "a view of a leaf [Vv]ariable",
    "[Oo]ne of the differentiated [Tt]ensors",
    "[Ii]nference tensors? ",
    "[Cc]an't call numpy\\(\\) on [Tt]ensor that requires grad",
    "[Oo]nly [Tt]ensors of floating point",
    "[Ee]xpected to have finished reduction in the prior iteration",
    "[Ee]xpected to mark a variable ready only once",
    "No inf checks were recorded for this optimizer",
    "unscale_\\(\\) has already been called",
    "[Oo]nly [Tt]ensors created explicitly by the user",
    "returned an invalid gradient|returned an incorrect number of gradients",
    "[Oo]ptimizer got an empty parameter list",
  ].join("|"),
);

interface Why {
  markdown: string;
  answers: { title: string; markdown: string; location?: Location | null; code?: string | null; fixable?: boolean }[];
}

interface ErrorLink extends vscode.TerminalLink {
  line: string;
}

/** Explains a traceback: of the selection, the clipboard, or a terminal. */
export class Traceback implements vscode.TextDocumentContentProvider, vscode.TerminalLinkProvider<ErrorLink> {
  private page = "";
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;

  constructor(private readonly server: Server) {}

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      this.changed,
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.window.registerTerminalLinkProvider(this),
      vscode.commands.registerCommand("gradline.explainTraceback", (text?: string) => this.explain(text)),
      vscode.commands.registerCommand("gradline.explainTerminal", () => this.explainTerminal()),
    );
  }

  provideTextDocumentContent(): string {
    return this.page;
  }

  // Links in terminals

  provideTerminalLinks(context: vscode.TerminalLinkContext): ErrorLink[] {
    const found = ERRORS.exec(context.line);
    if (!found) {
      return [];
    }
    const startIndex = context.line.length - context.line.trimStart().length;
    const length = context.line.trimEnd().length - startIndex;
    return [{ startIndex, length, tooltip: "Explain this error (gradline)", line: context.line.trim() }];
  }

  async handleTerminalLink(link: ErrorLink): Promise<void> {
    const text = await fromTerminal(true);
    const end = text.lastIndexOf(link.line);
    await this.explain(end < 0 ? link.line : lastTraceback(text.slice(0, end + link.line.length)));
  }

  // Commands

  private async explainTerminal(): Promise<void> {
    const selected = await fromTerminal(false);
    const text = selected.trim() ? selected : lastTraceback(await fromTerminal(true));
    if (text.trim()) {
      await this.explain(text);
    } else {
      void vscode.window.showInformationMessage("gradline: there is no traceback in the terminal.");
    }
  }

  private async explain(given?: string): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const selected = editor ? editor.document.getText(editor.selection) : "";
    const text = (typeof given === "string" ? given : selected.trim() ? selected : await vscode.env.clipboard.readText()).slice(
      -LONGEST,
    );
    if (!text.trim()) {
      void vscode.window.showInformationMessage("gradline: select a traceback, or copy one, and call this again.");
      return;
    }
    const client = this.server.client;
    if (!client?.isRunning()) {
      void vscode.window.showWarningMessage("gradline: the server does not run.");
      return;
    }
    const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
    let why: Why | null;
    try {
      const params = { command: "gradline.why", arguments: [{ text, folder }] };
      why = await client.sendRequest<Why | null>("workspace/executeCommand", params);
    } catch (error) {
      log.error(`explaining a traceback: ${error}`);
      void vscode.window.showErrorMessage(`gradline: the traceback could not be explained: ${error}`);
      return;
    }
    this.page = why ? this.written(why) : "gradline has nothing to say of this text: it holds no error of PyTorch's autograd.";
    const uri = vscode.Uri.from({ scheme: SCHEME, path: "/Explanation of the traceback.md" });
    this.changed.fire(uri);
    await vscode.commands.executeCommand("markdown.showPreviewToSide", uri);
  }

  private written(why: Why): string {
    const converter = this.server.client?.protocol2CodeConverter;
    const links = why.answers.flatMap(({ location, title, fixable }) => {
      const at = location && converter?.asLocation(location);
      if (!at) {
        return [];
      }
      const line = at.range.start.line + 1;
      const name = vscode.workspace.asRelativePath(at.uri);
      const fix = fixable ? " A quick fix is offered there." : "";
      return [`- [${name}:${line}](${at.uri.with({ fragment: `L${line}` })}): ${title}.${fix}`];
    });
    return [why.markdown, ...(links.length > 0 ? ["", "## Go there", "", ...links] : [])].join("\n") + os.EOL;
  }
}

/** What is selected in the active terminal, or all that it holds; the clipboard is as before afterwards. */
async function fromTerminal(everything: boolean): Promise<string> {
  const before = await vscode.env.clipboard.readText();
  try {
    await vscode.env.clipboard.writeText("");
    if (everything) {
      await vscode.commands.executeCommand("workbench.action.terminal.selectAll");
    }
    await vscode.commands.executeCommand("workbench.action.terminal.copySelection");
    const text = await vscode.env.clipboard.readText();
    if (everything) {
      await vscode.commands.executeCommand("workbench.action.terminal.clearSelection");
    }
    return text;
  } finally {
    await vscode.env.clipboard.writeText(before);
  }
}

/** The last traceback of a text, with those that it says it comes from; the end of the text if there is none. */
export function lastTraceback(text: string): string {
  const recent = text.slice(-LONGEST);
  let start = recent.lastIndexOf(START);
  if (start < 0) {
    return recent.split("\n").slice(-50).join("\n");
  }
  for (;;) {
    const before = recent.slice(0, start).trimEnd();
    const isChained =
      before.endsWith("another exception occurred:") || before.endsWith("the direct cause of the following exception:");
    const earlier = isChained ? recent.lastIndexOf(START, start - 1) : -1;
    if (earlier < 0) {
      return recent.slice(start);
    }
    start = earlier;
  }
}
