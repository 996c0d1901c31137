// What leads elsewhere: the gutter's line, the status bar, lenses, the explanation of a traceback.
export async function places({ page, window, shot, check }) {
  await window.file("train.py");
  await window.squiggle();
  await window.line(27);
  const icons = () =>
    page.evaluate(() => [...document.querySelectorAll(".glyph-margin-widgets > div")].map((e) => getComputedStyle(e).backgroundImage));
  check("the gutter shows that grad mode is off", await window.until(async () => (await icons()).some((image) => image.includes("line-off"))), (await icons()).join());
  const mode = page.locator(".statusbar-item").filter({ hasText: "grad off" }).first();
  await mode.waitFor({ timeout: 20_000 });
  await shot("status-bar");
  await mode.click();
  await window.title("data_loader.py");
  check("a click on the status bar leads to who set the grad mode", true);

  const lens = page.locator(".contentWidgets .codelens-decoration a").filter({ hasText: /origin of 1 finding/ }).first();
  await lens.waitFor({ timeout: 20_000 });
  await shot("lens");
  await lens.click();
  const peek = page.locator(".peekview-widget, .zone-widget").first();
  await peek.waitFor({ timeout: 10_000 });
  await window.until(async () => /loss\.backward/.test(await peek.innerText()));
  check("a click on the lens shows the victim", /loss\.backward/.test(await peek.innerText()), await peek.innerText());
  await page.keyboard.press("Escape");

  await window.file("number.py");
  await window.squiggle();
  check("the gutter's line is broken at a cut", await window.until(async () => (await icons()).some((image) => image.includes("line-cut"))), (await icons()).join());

  await window.file("said.txt");
  await page.keyboard.press("Control+a");
  await window.command("gradline: Explain Traceback (Selection");
  const why = await window.webview("main h3");
  const told = await why.locator("main").innerText();
  check("a selected traceback is explained", /element 0 of tensors/.test(told) && /set_grad_enabled\(False\)/.test(told), told);
  await why.locator("a.place").filter({ hasText: "utils/data_loader.py:12" }).first().click();
  await window.title("data_loader.py");
  check("and its places are links", await window.until(async () => (await window.at()) === 12), String(await window.at()));
}
