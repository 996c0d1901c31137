// Tracebacks: from the clipboard, and from a real terminal by its link, its selection and its menu.
export async function traceback({ page, window, shot, check }) {
  const said = ["Traceback (most recent call last):", '  File "train.py", line 27, in main', "    loss.backward()"];
  const error = "RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn";
  const isShown = () => window.webview("main h3", 0).then(() => true, () => false);
  const explained = async () => (await window.webview("main h3", 15_000)).locator("main").innerText();
  const closed = async () => {
    await window.command("View: Close All Editors");
    await window.until(async () => !(await isShown()));
  };

  await window.file("train.py");
  await page.evaluate((text) => navigator.clipboard.writeText(text), [...said, error].join("\n"));
  await window.command("gradline: Explain Traceback (Selection");
  const first = await explained();
  check("a copied traceback is explained", /raised at train\.py:27/.test(first), first);
  await closed();

  await page.evaluate(() => navigator.clipboard.writeText("mine"));
  await window.command("Terminal: Create New Terminal");
  const terminal = page.locator(".terminal-wrapper.active .xterm-rows");
  await terminal.waitFor({ timeout: 30_000 });
  await window.until(async () => /\S/.test(await terminal.innerText()));
  await page.keyboard.type("clear; cat said.txt\n");
  const row = terminal.locator("> div").filter({ hasText: /^RuntimeError: element 0/ }).last();
  await row.waitFor({ timeout: 15_000 });

  const text = row.getByText(/element 0 of tensors/).first();
  await window.follow(text, isShown);
  const linked = await explained();
  check("the error is a link to its explanation, with the traceback above it", /raised at train\.py:27/.test(linked), linked);
  await closed();

  const menu = async () => {
    const box = await row.boundingBox();
    await page.mouse.click(box.x + 60, box.y + box.height / 2, { button: "right" });
    const item = page.locator(".monaco-menu .action-item").filter({ hasText: /Explain Traceback/ }).first();
    await item.waitFor({ timeout: 10_000 });
    await page.waitForTimeout(400); // a menu takes no clicks as it opens
    return item;
  };
  const item = await menu();
  await shot("terminal-menu");
  await item.click();
  const last = await explained();
  check("the menu explains the last traceback", /raised at train\.py:27/.test(last), last);
  await closed();

  const box = await row.boundingBox();
  await page.mouse.click(box.x + 60, box.y + box.height / 2, { clickCount: 3 }); // selects the line
  await (await menu()).click();
  const selected = await explained();
  check("or what is selected", /element 0 of tensors/.test(selected) && !/raised at/.test(selected), selected);
  const kept = await page.evaluate(() => navigator.clipboard.readText());
  check("and leaves the clipboard as it was", kept === "mine", kept);
  await window.command("Terminal: Kill All Terminals");
}
