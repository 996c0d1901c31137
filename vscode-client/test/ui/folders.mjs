// Several folders in one window, each with settings and a Python of its own.
import fs from "node:fs";
import path from "node:path";

export async function folders({ page, window, code, shot, check, home, python }) {
  const root = path.join(home, "folders");
  const other = path.join(root, "another python");
  fs.mkdirSync(root);
  fs.writeFileSync(other, `#!/bin/sh\nexec "${python}" "$@"\n`, { mode: 0o755 });
  const text = [
    "import torch", "", "w = torch.ones(1, requires_grad=True)", "loss = (w * 2).sum()", "loss.item().backward()", "",
  ].join("\n");
  const settings = {
    first: { "gradline.probe.interpreter": other },
    second: { "gradline.probe.launcher": [python, "-B"] },
    third: { "gradline.enable": false },
  };
  for (const [name, own] of Object.entries(settings)) {
    fs.mkdirSync(path.join(root, name, ".vscode"), { recursive: true });
    fs.writeFileSync(path.join(root, name, `${name}_program.py`), text);
    fs.writeFileSync(path.join(root, name, ".vscode/settings.json"), JSON.stringify(own));
  }
  fs.writeFileSync(path.join(root, "second/pyproject.toml"), "[tool.gradline]\nignore = ['GL101']\n");
  const workspace = path.join(root, "all.code-workspace");
  fs.writeFileSync(workspace, JSON.stringify({ folders: Object.keys(settings).map((name) => ({ path: name })) }));

  // VS Code in a browser often opens a workspace as if it had no folders (three times of eight, without extensions too)
  const rows = page.locator(".explorer-folders-view .monaco-list-row");
  const isThere = async () => (await rows.count()) >= Object.keys(settings).length;
  for (let attempt = 0; attempt < 10; attempt++) {
    await code.openWorkspace(workspace, [["openFile", code.remote(path.join(root, "first/first_program.py"))]]);
    await window.ready();
    if (await window.until(isThere, 8000)) break;
    console.log("      VS Code has not read the workspace's folders; it is opened again");
  }
  await window.squiggle();
  check("a folder's file has its finding", true);
  const dialog = page.locator(".monaco-dialog-box");
  const asked = async (name) => {
    await window.file(`${name}_program.py`);
    await window.command("gradline: Probe: Run and Watch");
    await dialog.waitFor({ timeout: 60_000 });
    const said = await dialog.innerText();
    await shot(`folders-${name}`);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "hidden" });
    return said;
  };
  const first = await asked("first");
  check("its programs run with its Python, in its folder", first.includes("another python") && first.includes(path.join(root, "first")), first);
  const second = await asked("second");
  const isOwn = !second.includes("another python") && second.includes("-B") && second.includes(path.join(root, "second"));
  check("those of another with the other, and its launcher", isOwn, second);
  await page.waitForTimeout(1000);
  check("what a folder's pyproject.toml ignores is not shown there", (await page.locator(".squiggly-error").count()) === 0);
  await window.file("third_program.py");
  await page.waitForTimeout(1000);
  check("nor anything of a folder that is not to be analysed", (await page.locator(".squiggly-error").count()) === 0);
  await window.file("first_program.py");
  await window.squiggle();
}
