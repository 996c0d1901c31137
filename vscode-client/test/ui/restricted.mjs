// A workspace that is not trusted: its settings choose no interpreter, code is read, and nothing of it runs.
import fs from "node:fs";
import path from "node:path";

export async function restricted({ page, window, code, project, shot, check, home }) {
  const trap = path.join(home, "trap");
  fs.writeFileSync(trap, `#!/bin/sh\ntouch ${home}/sprung\nexec false\n`, { mode: 0o755 });
  fs.mkdirSync(path.join(project, ".vscode"));
  const settings = { "gradline.interpreter": [trap], "gradline.path": [trap], "gradline.probe.interpreter": trap };
  fs.writeFileSync(path.join(project, ".vscode/settings.json"), JSON.stringify(settings));
  await code.open(project, [["openFile", code.remote(path.join(project, "train.py"))]]);
  await window.ready();
  await window.squiggle();
  const banner = page.locator(".part.banner, .statusbar-item").filter({ hasText: /Restricted Mode/ }).first();
  await banner.waitFor();
  check("in restricted mode code is analysed", true);
  check("a program that the workspace names is not run", !fs.existsSync(path.join(home, "sprung")));
  const run = await page.locator('.editor-actions [aria-label^="Probe"]').count();
  check("there is no button for the probe", run === 0);
  await window.command("gradline: Probe: Run and Watch");
  const toast = page.locator(".notification-toast").filter({ hasText: "not trusted" }).first();
  await toast.waitFor({ timeout: 20_000 });
  check("the probe refuses, and says why", /Manage Workspace Trust/.test(await toast.innerText()), await toast.innerText());
  await shot("restricted");
  const box = await (await window.squiggle()).boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  const hover = page.locator(".monaco-hover:visible").filter({ hasText: "GL202" }).first();
  await hover.waitFor({ timeout: 15_000 });
  check("hover tells what is true there", /grad mode is off/.test(await hover.innerText()), await hover.innerText());

  // the trap is one: it springs as soon as the workspace is trusted
  await window.command("Workspaces: Manage Workspace Trust");
  await page.locator(".workspace-trust-editor .monaco-button").filter({ hasText: /^Trust$/ }).first().click();
  check("once it is trusted its settings hold", await window.until(() => fs.existsSync(path.join(home, "sprung")), 30_000));
}
