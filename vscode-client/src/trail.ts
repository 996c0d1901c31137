import * as path from "node:path";
import * as vscode from "vscode";

const VIEW = "gradline.trail";
const SHOWING = "gradline.hasTrail"; // context: the cursor is on a finding with a trail
const UNFOLDS_MS = 300; // the view has its height
const REST_MS = 200; // the cursor has come to rest

/** One place of a finding's trail; the finding's own place comes first, the origin last. */
class Step {
  constructor(
    readonly finding: Finding,
    readonly index: number,
    readonly location: vscode.Location,
    readonly note: string,
  ) {}
}

/** A finding of the server with its trail, as the diagnostic has it. */
class Finding {
  readonly steps: Step[];

  constructor(
    readonly uri: vscode.Uri,
    readonly diagnostic: vscode.Diagnostic,
  ) {
    const own = new Step(this, 0, new vscode.Location(uri, diagnostic.range), firstLine(diagnostic.message));
    const related = diagnostic.relatedInformation ?? [];
    this.steps = [own, ...related.map((item, at) => new Step(this, at + 1, item.location, item.message))];
  }

  get code(): string {
    const code = this.diagnostic.code;
    return String(typeof code === "object" ? code.value : (code ?? ""));
  }

  get comesFromElsewhere(): boolean {
    return this.steps.length > 1 && (this.diagnostic as { data?: { comesFromElsewhere?: boolean } }).data?.comesFromElsewhere === true;
  }

  get key(): string {
    const { start, end } = this.diagnostic.range;
    return [this.uri, this.code, start.line, start.character, end.line, end.character].join("|");
  }
}

type Node = Finding | Step;

/** The findings of the workspace as a tree of trails; walked with the keyboard in the tree, or in the editor step by step. */
export class Trail implements vscode.TreeDataProvider<Node>, vscode.CodeActionProvider, vscode.Disposable {
  private findings: Finding[] = [];
  private here: Step | undefined; // where the walk is
  private readonly changed = new vscode.EventEmitter<undefined>();
  private readonly view: vscode.TreeView<Node>;
  private readonly disposables: vscode.Disposable[];
  private resting: NodeJS.Timeout | undefined;

  readonly onDidChangeTreeData = this.changed.event;

  constructor() {
    this.view = vscode.window.createTreeView<Node>(VIEW, { treeDataProvider: this, showCollapseAll: true });
    this.read();
    this.disposables = [
      this.view,
      this.changed,
      vscode.languages.onDidChangeDiagnostics(() => this.soon()),
      vscode.window.onDidChangeTextEditorSelection(() => this.soon()),
      vscode.window.onDidChangeActiveTextEditor(() => this.soon()),
      this.view.onDidChangeVisibility(() => this.follow()),
      vscode.languages.registerCodeActionsProvider({ language: "python" }, this, {
        providedCodeActionKinds: [vscode.CodeActionKind.QuickFix],
      }),
      vscode.commands.registerCommand("gradline.showTrail", (node?: Node) => this.show(node)),
      vscode.commands.registerCommand("gradline.peekTrail", (node?: Node) => this.peek(node)),
      vscode.commands.registerCommand("gradline.nextStep", () => this.walk(1)),
      vscode.commands.registerCommand("gradline.previousStep", () => this.walk(-1)),
      vscode.commands.registerCommand("gradline.openStep", (step: Step) => this.open(step, true)),
    ];
  }

  dispose(): void {
    clearTimeout(this.resting);
    vscode.Disposable.from(...this.disposables).dispose();
  }

  // The tree

  getChildren(node?: Node): Node[] {
    return node === undefined ? this.findings : node instanceof Finding ? node.steps : [];
  }

  getParent(node: Node): Node | undefined {
    return node instanceof Step ? node.finding : undefined;
  }

  getTreeItem(node: Node): vscode.TreeItem {
    if (node instanceof Finding) {
      const item = new vscode.TreeItem(firstLine(node.diagnostic.message), vscode.TreeItemCollapsibleState.Collapsed);
      item.id = node.key;
      item.description = `${where(node.steps[0]!.location)} ${node.code}`;
      item.iconPath = severityIcon(node.diagnostic.severity);
      item.tooltip = node.diagnostic.message;
      item.contextValue = "finding";
      item.command = { command: "gradline.openStep", title: vscode.l10n.t("Go There"), arguments: [node.steps[0]] };
      item.accessibilityInformation = { label: `${item.label}, ${item.description}, ${vscode.l10n.t("{0} steps", node.steps.length)}` };
      return item;
    }
    const isOrigin = this.isOrigin(node);
    const own = isOrigin ? vscode.l10n.t("is made here") : vscode.l10n.t("shows here");
    // the place first: what does not fit is cut off at the end
    const item = new vscode.TreeItem(where(node.location), vscode.TreeItemCollapsibleState.None);
    item.id = `${node.finding.key}|${node.index}`;
    item.description = node.index === 0 ? own : node.note;
    item.iconPath = new vscode.ThemeIcon(isOrigin ? "target" : node.index === 0 ? "debug-stackframe" : "arrow-small-down");
    item.tooltip = `${node.note}\n${where(node.location)}`;
    item.command = { command: "gradline.openStep", title: vscode.l10n.t("Go There"), arguments: [node] };
    const role = isOrigin
      ? vscode.l10n.t("origin")
      : vscode.l10n.t("step {0} of {1}", node.index + 1, node.finding.steps.length);
    item.accessibilityInformation = { label: `${role}: ${item.description}, ${item.label}` };
    return item;
  }

  /** Whether this is where it comes from: the end of a trail that leads elsewhere, else the finding's own place. */
  private isOrigin({ finding, index }: Step): boolean {
    return index === (finding.comesFromElsewhere ? finding.steps.length - 1 : 0);
  }

  // The lamp beside a finding leads to its trail

  provideCodeActions(
    document: vscode.TextDocument,
    range: vscode.Range,
    context: vscode.CodeActionContext,
  ): vscode.CodeAction[] {
    const on = this.findings.find(
      (one) => one.steps.length > 1 && same(one.uri, document.uri) && one.diagnostic.range.intersection(range),
    );
    if (!on || (context.only && !context.only.contains(vscode.CodeActionKind.QuickFix))) {
      return [];
    }
    const action = new vscode.CodeAction(vscode.l10n.t("Show the trail of {0}", String(on.code)), vscode.CodeActionKind.QuickFix);
    action.command = { command: "gradline.showTrail", title: action.title, arguments: [on] };
    return [action];
  }

  // Walking

  /** Shows the tree with the finding at the cursor (or the given one) opened; asks for one if there is none. */
  private async show(node?: Node): Promise<void> {
    this.read();
    const finding = this.known(node) ?? this.atCursor()?.finding ?? (await this.pick());
    if (finding) {
      this.here = finding.steps[0];
      const wasVisible = this.view.visible;
      await vscode.commands.executeCommand(`${VIEW}.focus`);
      await this.view.reveal(finding, { select: true, focus: true, expand: true });
      if (!wasVisible) {
        await new Promise((resolve) => setTimeout(resolve, UNFOLDS_MS)); // before, it knows no height to scroll by
        await this.view.reveal(finding.steps.at(-1)!, { select: false, focus: false });
        await this.view.reveal(finding, { select: true, focus: true });
      }
    }
  }

  private async peek(node?: Node): Promise<void> {
    this.read();
    const given = this.known(node);
    const step = given ? undefined : this.atCursor();
    const finding = given ?? step?.finding ?? (await this.pick());
    if (finding) {
      const from = step?.location ?? finding.steps[0]!.location;
      const places = finding.steps.map((one) => one.location);
      if (!step) {
        await this.open(finding.steps[0]!, false);
      }
      await vscode.commands.executeCommand("editor.action.peekLocations", from.uri, from.range.start, places, "peek");
    }
  }

  /** Goes to the next place of the trail that the cursor is on (or the walk was on), towards the origin or back. */
  private async walk(by: 1 | -1): Promise<void> {
    this.read();
    const at = this.atCursor();
    const from = at && this.here && at.finding.key === this.here.finding.key && samePlace(at, this.here) ? this.here : at;
    const start = from ?? this.known(this.here)?.steps[this.here?.index ?? 0];
    const finding = start?.finding ?? (await this.pick());
    if (!finding) {
      return;
    }
    const index = start ? start.index + by : 0;
    const step = finding.steps[index];
    if (!step) {
      const end = by > 0 ? vscode.l10n.t("The trail ends here.") : vscode.l10n.t("The trail begins here.");
      vscode.window.setStatusBarMessage(`gradline: ${end}`, 4000);
      return;
    }
    await this.open(step, false);
    vscode.window.setStatusBarMessage(`gradline: ${vscode.l10n.t("{0} of {1}: {2}", index + 1, finding.steps.length, step.note)}`, 8000);
  }

  private async open(step: Step, fromTree: boolean): Promise<void> {
    this.here = step;
    const { uri, range } = step.location;
    await vscode.window.showTextDocument(uri, { selection: range, preserveFocus: fromTree, preview: true });
    if (this.view.visible && !fromTree) {
      await this.view.reveal(step, { select: true, focus: false });
    }
  }

  /** The step whose place, or else whose line, the cursor is in: of the trail that is being walked if it has one there, else of any. */
  private atCursor(): Step | undefined {
    const editor = vscode.window.activeTextEditor;
    const cursor = editor?.selection.active;
    if (!editor || !cursor) {
      return undefined;
    }
    const inLine = (step: Step): boolean =>
      same(step.location.uri, editor.document.uri) &&
      step.location.range.start.line <= cursor.line &&
      cursor.line <= step.location.range.end.line;
    const near = this.findings.flatMap((one) => one.steps).filter(inLine);
    const within = near.filter((step) => step.location.range.contains(cursor));
    const steps = within.length > 0 ? within : near;
    const walked = this.known(this.here);
    return steps.find((step) => step.finding === walked) ?? steps.find((step) => step.index === 0) ?? steps[0];
  }

  private async pick(): Promise<Finding | undefined> {
    if (this.findings.length === 0) {
      void vscode.window.showInformationMessage(vscode.l10n.t("gradline: nothing is found, so there is no trail."));
      return undefined;
    }
    const items = this.findings.map((finding) => ({
      label: firstLine(finding.diagnostic.message),
      description: `${where(finding.steps[0]!.location)} ${finding.code}`,
      finding,
    }));
    return (await vscode.window.showQuickPick(items, { placeHolder: vscode.l10n.t("Whose trail?"), matchOnDescription: true }))?.finding;
  }

  // Keeping up

  /** The present finding that a node from before belongs to. */
  private known(node: Node | undefined): Finding | undefined {
    const key = node instanceof Finding ? node.key : node?.finding.key;
    return this.findings.find((one) => one.key === key);
  }

  private soon(): void {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => {
      this.read();
      this.follow();
    }, REST_MS);
  }

  private read(): void {
    const found = vscode.languages
      .getDiagnostics()
      .flatMap(([uri, items]) => items.filter((item) => item.source === "gradline").map((item) => new Finding(uri, item)));
    const active = vscode.window.activeTextEditor?.document.uri;
    const rank = (one: Finding): number => (active && same(one.uri, active) ? 0 : 1) * 10 + one.diagnostic.severity;
    const order = (one: Finding, other: Finding): number =>
      rank(one) - rank(other) ||
      one.uri.path.localeCompare(other.uri.path) ||
      one.diagnostic.range.start.compareTo(other.diagnostic.range.start);
    found.sort(order);
    const told = (all: Finding[]): string => all.map((one) => [one.key, ...one.steps.map(text)].join("\n")).join("\n");
    if (told(found) !== told(this.findings)) {
      this.findings = found;
      this.view.message = found.length === 0 ? vscode.l10n.t("Nothing found.") : undefined;
      this.changed.fire(undefined);
    }
  }

  private follow(): void {
    const at = this.atCursor();
    void vscode.commands.executeCommand("setContext", SHOWING, at !== undefined && at.finding.steps.length > 1);
    if (at && this.view.visible && !this.view.selection.some((node) => node === at || node === at.finding)) {
      void this.view.reveal(at.index === 0 ? at.finding : at, { select: true, focus: false, expand: true });
    }
  }
}

function text(step: Step): string {
  return `${step.location.uri} ${step.location.range.start.line} ${step.note}`;
}

function firstLine(message: string): string {
  return message.split("\n", 1)[0] ?? message;
}

function where({ uri, range }: vscode.Location): string {
  const cells = vscode.workspace.notebookDocuments.flatMap((notebook) => notebook.getCells());
  const cell = cells.find((one) => same(one.document.uri, uri));
  return `${path.posix.basename(uri.path)}${cell ? ` cell ${cell.index + 1}` : ""}:${range.start.line + 1}`;
}

function same(one: vscode.Uri, other: vscode.Uri): boolean {
  return one.toString() === other.toString();
}

function samePlace(one: Step, other: Step): boolean {
  return same(one.location.uri, other.location.uri) && one.location.range.isEqual(other.location.range);
}

function severityIcon(severity: vscode.DiagnosticSeverity): vscode.ThemeIcon {
  switch (severity) {
    case vscode.DiagnosticSeverity.Error:
      return new vscode.ThemeIcon("error", new vscode.ThemeColor("problemsErrorIcon.foreground"));
    case vscode.DiagnosticSeverity.Warning:
      return new vscode.ThemeIcon("warning", new vscode.ThemeColor("problemsWarningIcon.foreground"));
    default:
      return new vscode.ThemeIcon("info", new vscode.ThemeColor("problemsInfoIcon.foreground"));
  }
}
