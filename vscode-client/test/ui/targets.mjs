// What else can be probed: the test at the lens, a notebook up to a cell, a program that a launcher starts.
import fs from "node:fs";
import path from "node:path";

const PATIENCE = 120_000;

export async function targets({ page, window, shot, check, hasTorch, project, python }) {
  if (!hasTorch) {
    console.log("skip  what can be probed: the interpreter (PYTHON) has no torch");
    return;
  }
  const dialog = page.locator(".monaco-dialog-box");
  const lens = page.locator(".codelens-decoration a").filter({ hasText: /^Probe$/ });
  const run = async () => {
    await dialog.waitFor({ timeout: 60_000 });
    const asked = await dialog.innerText();
    await dialog.getByText("Run", { exact: true }).click();
    const report = await window.webview("#findings", PATIENCE);
    return [asked, await report.locator("body").innerText()];
  };

  await window.file("test_learn.py");
  await lens.last().waitFor({ timeout: 30_000 });
  await window.line(17);
  await lens.last().click();
  const [askedTest, test] = await run();
  check("the lens over a test runs that test", /Run test_learn\.py::TestLearning::test_learns/.test(askedTest) && /pytest/.test(askedTest), askedTest);
  check("and its report knows what trained", /2 frozen/.test(test), test.slice(0, 1500));
  await page.waitForTimeout(800);
  await shot("probe-test");
  await window.command("View: Close All Editors");

  await window.file("learn.ipynb", ".notebookOverlay .cell-list-container");
  await lens.last().waitFor({ timeout: 30_000 });
  await lens.last().click();
  const [askedCells, cells] = await run();
  check("the lens in a cell runs the notebook up to it", /learn\.ipynb up to cell 2/.test(askedCells), askedCells);
  check("and its report knows the cells", /learn\.ipynb/.test(cells) && /GL103/.test(cells) && /confirmed/.test(cells), cells.slice(0, 1500));
  await page.waitForTimeout(800);
  await shot("probe-notebook");
  await window.command("View: Close All Editors");

  const settings = path.join(project, ".vscode/settings.json");
  fs.mkdirSync(path.dirname(settings), { recursive: true });
  const launcher = [python, "-B"];
  fs.writeFileSync(settings, JSON.stringify({ "gradline.probe.launcher": launcher }));
  await window.file("train.py");
  await window.until(async () => {
    await window.command("gradline: Probe: Run and Watch");
    await dialog.waitFor({ timeout: 60_000 });
    if (/-B/.test(await dialog.innerText())) return true; // the settings have been read
    await page.keyboard.press("Escape");
    return false;
  });
  const [asked, started] = await run();
  check("a launcher from the settings starts the program", /-B train\.py/.test(asked), asked);
  check("and is watched there", /data_loader\.py:12/.test(started) && /confirmed/.test(started), started.slice(0, 1500));
  await page.waitForTimeout(800);
  await shot("probe-launcher");
  fs.rmSync(path.dirname(settings), { recursive: true });
}
