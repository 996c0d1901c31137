import * as vscode from "vscode";
import type { Server } from "./server";

const SCHEME = "gradline-rule";

interface Rule {
  code: string;
  name: string;
  summary: string;
}

/** Shows the page of a rule: the one at the cursor, or one that the user picks. */
export class Explain implements vscode.TextDocumentContentProvider {
  constructor(private readonly server: Server) {}

  register(): vscode.Disposable {
    return vscode.Disposable.from(
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.commands.registerCommand("gradline.explainRule", (rule?: string) => this.show(rule)),
    );
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const rule = uri.path.slice(1).replace(/\.md$/, "");
    const page = await this.server.client?.sendRequest<{ markdown: string } | null>("gradline/explain", { rule });
    return page?.markdown ?? vscode.l10n.t("There is no rule {0}.", rule);
  }

  private async show(rule?: string): Promise<void> {
    const name = rule ?? this.atCursor() ?? (await this.pick());
    if (name) {
      const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${name}.md` });
      await vscode.commands.executeCommand("markdown.showPreview", uri);
    }
  }

  private atCursor(): string | undefined {
    const editor = vscode.window.activeTextEditor;
    const here = editor?.selection.active;
    const code =
      editor &&
      vscode.languages
        .getDiagnostics(editor.document.uri)
        .find((item) => item.source === "gradline" && here && item.range.contains(here))?.code;
    const value = typeof code === "object" ? code.value : code;
    return value === undefined ? undefined : String(value);
  }

  private async pick(): Promise<string | undefined> {
    const rules = await this.server.client?.sendRequest<Rule[]>("gradline/rules", {});
    const items = (rules ?? []).map((rule) => ({ label: rule.code, description: rule.name, detail: rule.summary }));
    const chosen = await vscode.window.showQuickPick(items, {
      placeHolder: vscode.l10n.t("Which rule?"),
      matchOnDescription: true,
      matchOnDetail: true,
    });
    return chosen?.label;
  }
}
