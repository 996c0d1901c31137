// What a person sees: squiggles, the Problems panel, hover, the quick fix, colours, the gutter and the status bar.
import fs from "node:fs";
import path from "node:path";
import { Window } from "./vscode.mjs";

export async function look({ tools, home, project, vsix, machine, shots, start }) {
  const code = await start(tools, { home, vsix, machine });
  const { page } = code;
  const window = new Window(page);
  const shot = (name) => page.screenshot({ path: path.join(shots, `${name}.png`) });
  let failed = 0;
  const check = (name, ok, about = "") => {
    if (!ok) failed++;
    console.log(ok ? "ok   " : "FAIL ", name, about);
  };
  try {
    const train = path.join(project, "train.py");
    await code.open(project, [["openFile", code.remote(train)]]);
    await window.ready();
    await page.waitForSelector(".view-line", { timeout: 120_000 });
    await window.squiggle();
    await window.command("Problems: Focus on Problems View");
    await page.locator(".markers-panel .monaco-list-row").first().waitFor();
    await page.waitForTimeout(2000);
    const rows = await page.locator(".markers-panel .monaco-list-row").allInnerTexts();
    check("the Problems panel has the victim and its trail", rows.some((row) => row.includes("GL202")), rows.join(" | "));
    await shot("problems");

    // the panel takes room: bring the squiggle back into view
    await page.locator(".markers-panel .monaco-list-row").filter({ hasText: "GL202" }).first().click();
    await page.waitForTimeout(1000);
    const box = await (await window.squiggle()).boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const hover = page.locator(".monaco-hover:visible").filter({ hasText: "gradline" }).first();
    await hover.waitFor({ timeout: 10_000 });
    await page.waitForTimeout(400);
    check("hover shows the finding", (await hover.innerText()).includes("GL202"), await hover.innerText());
    await shot("hover");
    await page.keyboard.press("Escape");

    await window.file("number.py");
    for (const theme of ["dark", "light", "dark"]) {
      const style = await window.style("item", 1);
      check(`the cut glares in the ${theme} theme`, Number(style.weight) >= 700, style.color);
      await shot(`theme-${theme}`);
      await window.command("Preferences: Toggle between Light/Dark Themes");
      await page.waitForTimeout(1500);
    }
    await window.command("Preferences: Toggle between Light/Dark Themes");

    await window.file("data_loader.py");
    const origin = await window.squiggle();
    await page.waitForTimeout(1500);
    const at = await origin.boundingBox();
    await page.mouse.click(at.x + at.width / 2, at.y + at.height / 2);
    await shot("origin");
    await page.keyboard.press("Control+.");
    const item = page.locator(".action-widget .monaco-list-row").first();
    await item.waitFor({ timeout: 10_000 });
    await page.waitForTimeout(300);
    await shot("quick-fix");
    const title = (await item.innerText()).trim();
    await page.locator(".action-widget .monaco-list-row.action").first().click();
    await page.waitForFunction(() => document.querySelectorAll(".squiggly-error").length === 0, null, { timeout: 20_000 });
    check("the quick fix takes the squiggle away", true, title);
    await page.keyboard.press("Control+s");
    await page.waitForTimeout(1000);
    const saved = fs.readFileSync(path.join(project, "utils/data_loader.py"), "utf8");
    check("the fix is saved", !/^torch\.set_grad_enabled\(False\)$/m.test(saved));
    await shot("fixed");

    await window.file("explore.ipynb", ".notebookOverlay .cell-list-container");
    await window.squiggle();
    await page.waitForTimeout(1500);
    await shot("notebook");
  } catch (error) {
    failed++;
    console.log(String(error).slice(0, 1500));
    await shot("error");
  } finally {
    await code.stop();
  }
  return failed === 0;
}
