// What the tests in the extension host share.
const fs = require("node:fs");
const vscode = require("vscode");

const PATIENCE = 60_000;
const FIRST = "the bundled server runs"; // nothing works without it
const tests = [];
const notes = [];

async function until(what, check, patience = PATIENCE) {
  const end = Date.now() + patience;
  for (;;) {
    const value = await check();
    if (value) return value;
    if (Date.now() > end) throw new Error(`timed out: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const uri = (name) => vscode.Uri.joinPath(vscode.workspace.workspaceFolders[0].uri, name);
const ours = (of) => vscode.languages.getDiagnostics(of).filter((item) => item.source === "gradline");
const codes = (of) => ours(of).map((item) => item.code.value);

module.exports = {
  FIRST,
  test: (name, body) => tests.push([name, body]),
  note: (text) => notes.push(text),
  until,
  uri,
  ours,
  codes,
  show: async (name) => vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri(name))),
  having: (of, ...wanted) =>
    until(`${wanted} in ${of.path}`, () => wanted.every((code) => codes(of).includes(code)) && ours(of)),
  api: () => vscode.extensions.getExtension("gradline.gradline").activate(),
  async run() {
    let failed = 0;
    const lines = [`VS Code ${vscode.version}, trusted: ${vscode.workspace.isTrusted}`];
    const wanted = tests.filter(([name]) => new RegExp(process.env.GRADLINE_TEST_ONLY ?? "").test(name));
    for (const [name, body] of wanted) {
      const start = Date.now();
      try {
        await body();
        lines.push(`ok    ${name} (${Date.now() - start} ms)${notes.map((note) => `\n      ${note}`).join("")}`);
      } catch (error) {
        failed++;
        lines.push(`FAIL  ${name}: ${error.stack ?? error}`);
      }
      notes.length = 0;
      fs.writeFileSync(process.env.GRADLINE_TEST_RESULT, `${lines.join("\n")}\n`);
      if (failed && name === FIRST) break; // nothing works without it
    }
    lines.push(`${wanted.length - failed} passed, ${failed} failed`);
    fs.writeFileSync(process.env.GRADLINE_TEST_RESULT, `${lines.join("\n")}\n`);
    if (failed) throw new Error(`${failed} failed`);
  },
};
