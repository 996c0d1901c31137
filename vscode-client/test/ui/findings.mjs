// Squiggles, the Problems panel, hover, hints, the quick fix and the saved file, a notebook's cell.
import fs from "node:fs";
import path from "node:path";

export async function findings({ page, window, project, shot, check }) {
  await window.command("Problems: Focus on Problems View");
  const row = page.locator(".markers-panel .monaco-list-row").filter({ hasText: "GL202" }).first();
  await row.waitFor();
  const rows = page.locator(".markers-panel .monaco-list-row");
  await page.waitForFunction(() => /turns gradients off/.test(document.querySelector(".markers-panel")?.innerText ?? ""));
  check("the Problems panel has the victim and its trail", (await rows.count()) > 3);
  await shot("problems");
  await row.click(); // the panel takes room: bring the squiggle back into view
  await page.waitForTimeout(500);

  const hover = page.locator(".monaco-hover:visible").filter({ hasText: "gradline" }).first();
  await window.until(async () => {
    const box = await (await window.squiggle()).boundingBox(); // lines may move once more, when lenses come
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2 - 30);
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    return hover.waitFor({ timeout: 3000 }).then(() => true, () => false);
  });
  await page.waitForTimeout(400);
  const told = await hover.innerText();
  check("hover shows the finding, its trail, and what is true there", /GL202/.test(told) && /grad mode is off/.test(told), told);
  await shot("hover");
  await page.keyboard.press("Escape");
  await window.command("View: Hide Panel");

  const hint = page.locator(".view-line").filter({ hasText: "backward" }).locator("span span").filter({ hasText: /grad\s+off\s+since/ }).first();
  await hint.waitFor({ timeout: 30_000 });
  check("a hint says since when grad mode is off", /data_loader\.py:12/.test(await hint.innerText()), await hint.innerText());
  await window.follow(hint, () => window.isFront("data_loader.py"));
  check("a click on the hint leads to the origin", true);

  const origin = await window.squiggle();
  await page.waitForTimeout(1000);
  const at = await origin.boundingBox();
  await page.mouse.click(at.x + at.width / 2, at.y + at.height / 2);
  await shot("origin");
  const item = page.locator(".action-widget .monaco-list-row.action").first();
  const isOffered = () => item.waitFor({ timeout: 5000 }).then(() => true, () => false);
  await window.until(async () => {
    await page.keyboard.press("Control+."); // in one run of seven VS Code did not show the menu
    return isOffered();
  });
  await page.waitForTimeout(300);
  await shot("quick-fix");
  const title = (await item.innerText()).trim();
  await item.click();
  await page.waitForFunction(() => document.querySelectorAll(".squiggly-error").length === 0, null, { timeout: 20_000 });
  await page.keyboard.press("Control+s");
  const file = path.join(project, "utils/data_loader.py");
  const isSaved = () => !/^torch\.set_grad_enabled\(False\)$/m.test(fs.readFileSync(file, "utf8"));
  check(`the quick fix (${title}) takes the squiggle away and is saved`, await window.until(isSaved));
  await shot("fixed");
  await window.command("View: Close All Editors");
  fs.writeFileSync(file, fs.readFileSync(path.join(import.meta.dirname, "../../../examples/midnight/utils/data_loader.py")));

  await window.file("explore.ipynb", ".notebookOverlay .cell-list-container");
  await window.squiggle();
  await page.waitForTimeout(1000);
  const cell = await page.locator(".notebookOverlay .squiggly-error").count();
  check("a notebook's cell has its squiggle", cell > 0);
  await shot("notebook");
}
