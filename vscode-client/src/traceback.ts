import * as vscode from "vscode";
import type { Location } from "vscode-languageclient";
import { log } from "./log";
import { placeLink, showExplanation } from "./report";
import type { Server } from "./server";

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
export class Traceback implements vscode.TerminalLinkProvider<ErrorLink> {
  constructor(private readonly server: Server) {}

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      vscode.window.registerTerminalLinkProvider(this),
      vscode.commands.registerCommand("gradline.explainTraceback", (text?: string) => this.explain(text)),
      vscode.commands.registerCommand("gradline.explainTerminal", () => this.explainTerminal()),
    );
  }

  // Links in terminals

  provideTerminalLinks(context: vscode.TerminalLinkContext): ErrorLink[] {
    const found = ERRORS.exec(context.line);
    if (!found) {
      return [];
    }
    const startIndex = context.line.length - context.line.trimStart().length;
    const length = context.line.trimEnd().length - startIndex;
    return [{ startIndex, length, tooltip: vscode.l10n.t("Explain this error (gradline)"), line: context.line.trim() }];
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
      void vscode.window.showInformationMessage(vscode.l10n.t("gradline: there is no traceback in the terminal."));
    }
  }

  private async explain(given?: string): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const selected = editor ? editor.document.getText(editor.selection) : "";
    const text = (typeof given === "string" ? given : selected.trim() ? selected : await vscode.env.clipboard.readText()).slice(
      -LONGEST,
    );
    if (!text.trim()) {
      void vscode.window.showInformationMessage(vscode.l10n.t("gradline: select a traceback, or copy one, and call this again."));
      return;
    }
    const client = this.server.client;
    if (!client?.isRunning()) {
      void vscode.window.showWarningMessage(vscode.l10n.t("gradline: the server does not run."));
      return;
    }
    const shown = vscode.window.activeTextEditor?.document.uri;
    const folder = ((shown && vscode.workspace.getWorkspaceFolder(shown)) ?? vscode.workspace.workspaceFolders?.[0])?.uri;
    let why: Why | null;
    try {
      const params = { text, folder: folder && client.code2ProtocolConverter.asUri(folder) };
      why = await client.sendRequest<Why | null>("gradline/why", params);
    } catch (error) {
      log.error(`explaining a traceback: ${error}`);
      void vscode.window.showErrorMessage(vscode.l10n.t("gradline: the traceback could not be explained: {0}", String(error)));
      return;
    }
    await showExplanation(vscode.l10n.t("Traceback"), why ? this.written(why) : vscode.l10n.t("There is no traceback in this text."));
  }

  private written(why: Why): string {
    const fixable = why.answers.find((answer) => answer.fixable && answer.location);
    const at = fixable?.location && this.server.client?.protocol2CodeConverter.asLocation(fixable.location);
    const lines = linked(why.markdown).split("\n");
    if (at) {
      lines.push("", vscode.l10n.t("A quick fix is offered at {0}.", placeLink(at.uri.fsPath, at.range.start.line + 1)));
    }
    return `${lines.join("\n")}\n`;
  }
}

/** The text with the places in it (`/folder/file.py:12`) as links; code blocks stay as they are. */
function linked(markdown: string): string {
  let fenced = false;
  return markdown
    .split("\n")
    .map((line) => {
      if (line.startsWith("```")) {
        fenced = !fenced;
      }
      return fenced
        ? line
        : line.replace(
            /(?<![\w./\\-])`?((?:[A-Za-z]:)?[/\\][^`\s:]*\.(?:py|ipynb)):(?:cell (\d+):)?(\d+)`?/g,
            (_, file: string, cell: string | undefined, number: string) => placeLink(file, Number(number), cell ? Number(cell) - 1 : undefined),
          );
    })
    .join("\n");
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
