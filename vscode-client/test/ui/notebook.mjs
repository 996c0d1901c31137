// A notebook whose cells are edited, moved, put in and taken out.
export async function notebook({ page, window, shot, check }) {
  await window.file("explore.ipynb", ".notebookOverlay .cell-list-container");
  const marks = page.locator(".notebookOverlay .squiggly-error");
  const cells = page.locator(".notebookOverlay .code-cell-row");
  const marked = async (cell, wanted) => window.until(async () => (await cell.locator(".squiggly-error").count() > 0) === wanted, 15_000);
  const last = () => cells.filter({ hasText: "backward" }).last();
  const line = (text) => page.locator(".notebookOverlay .view-line").filter({ hasText: text }).last();
  const write = async (over, text) => {
    await line(over).click();
    await page.keyboard.press("End");
    await page.keyboard.press("Shift+Home");
    await page.keyboard.type(text);
  };
  check("the cell with the mistake has the squiggle", await marked(last(), true));
  check("and no other", (await marks.count()) > 0 && !(await cells.first().locator(".squiggly-error").count()));

  await write("item().backward()", "loss.backward()");
  check("an edit in the cell takes it away", await marked(last(), false));
  await write("loss.backward()", "loss.item().backward()");
  check("and brings it back", await marked(last(), true));

  await page.keyboard.press("Escape"); // to the cell itself
  for (const _ of "12") await page.keyboard.press("Alt+ArrowUp", { delay: 100 });
  check("moved above the cell that makes its model it says nothing", await window.until(async () => (await marks.count()) === 0));
  await shot("notebook-moved");
  for (const _ of "12") await page.keyboard.press("Alt+ArrowDown", { delay: 100 });
  check("moved back it does", await marked(last(), true));

  const before = await cells.count();
  await window.command("Notebook: Insert Code Cell Above");
  check("a cell is put in", await window.until(async () => (await cells.count()) === before + 1));
  await page.keyboard.type("other = model(torch.ones(4)).sum()\nother.detach().backward()");
  const added = cells.filter({ hasText: "other.detach" }).first();
  check("a cell that is put in has its own finding", await marked(added, true));
  check("and the other keeps its own", await marked(last(), true));
  await page.waitForTimeout(500);
  await shot("notebook-added");
  await page.keyboard.press("Escape");
  await window.command("Notebook: Delete Cell");
  await added.waitFor({ state: "detached", timeout: 10_000 });
  const alone = async () => (await page.locator(".notebookOverlay .code-cell-row:has(.squiggly-error)").count()) === 1;
  check("taken out it takes its finding along", await window.until(alone), String(await marks.count()));
  await window.command("Problems: Focus on Problems View");
  const rows = page.locator(".markers-panel .monaco-list-row").filter({ hasText: /GL101/ });
  await window.until(async () => (await rows.count()) > 0);
  await shot("notebook-problems");
  await window.command("View: Hide Panel");
  await window.command("View: Revert and Close Editor");
}
