// The trail as a tree, walked with the keyboard alone; and as a peek.
export async function trail({ page, window, shot, check }) {
  await window.file("train.py");
  await window.squiggle();
  await window.line(27);
  await window.command("gradline: Show Trail");
  const view = page.locator(".pane").filter({ has: page.locator(".pane-header").filter({ hasText: /trail/i }) }).last();
  const rows = view.locator(".monaco-list-row");
  await window.until(async () => (await rows.count()) >= 5);
  const told = await rows.allInnerTexts();
  check("the view shows the steps of the finding at the cursor", told.some((row) => /data_loader\.py:12/.test(row)), told.join(" | "));
  const labels = await rows.evaluateAll((all) => all.map((row) => row.getAttribute("aria-label")));
  check("a reader hears which step is the origin", labels.some((label) => /^origin:/.test(label ?? "")), labels.join(" | "));
  await page.waitForTimeout(500);
  await shot("trail");
  const steps = told.findIndex((row) => /turns gradients off until/.test(row)) - told.findIndex((row) => /GL202/.test(row));
  for (let at = 0; at < steps; at++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await window.title("data_loader.py");
  check("the keyboard alone leads to the origin", await window.until(async () => (await window.at()) === 12), String(await window.at()));
  await shot("trail-origin");

  await window.file("train.py");
  await window.line(27);
  await page.keyboard.press("Control+k");
  await page.keyboard.press("g");
  check("a chord goes on to the next step", await window.until(async () => (await window.at()) === 10), String(await window.at()));
  await window.line(27);
  await window.command("gradline: Peek Trail");
  const peek = page.locator(".peekview-widget").first();
  await peek.waitFor({ timeout: 10_000 });
  await page.waitForTimeout(800);
  check("the trail can be peeked at", /data_loader\.py/.test(await peek.innerText()), await peek.innerText());
  await shot("trail-peek");
  await page.keyboard.press("Escape");
}
