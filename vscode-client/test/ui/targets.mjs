// What else can be probed: the test at the lens, a notebook up to a cell.

const PATIENCE = 120_000;

export async function targets({ page, window, shot, check, hasTorch }) {
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
}
