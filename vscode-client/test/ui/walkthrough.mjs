// The walkthrough, and the example that its first step opens.
export async function walkthrough({ page, window, shot, check }) {
  await window.command("Welcome: Open Walkthrough");
  await window.choose("Get Started with gradline");
  const steps = page.locator(".getting-started-step");
  await steps.first().waitFor({ timeout: 20_000 });
  check("the walkthrough has its steps", (await steps.count()) === 6, String(await steps.count()));
  const image = page.locator(".getting-started-media img").first();
  await image.waitFor();
  check("with pictures", await window.until(() => image.evaluate((one) => one.naturalWidth > 0)));
  await page.waitForTimeout(800);
  await shot("walkthrough");
  await page.getByText("Open the Example").first().click();
  await window.squiggle();
  check("its example has its finding, in any folder", true);
  await shot("walkthrough-example");
  await window.command("Problems: Focus on Problems View");
  const rows = page.locator(".markers-panel .monaco-list-row").filter({ hasText: /globalStorage/ });
  const shown = (wanted) => window.until(async () => ((await rows.count()) > 0) === wanted, 10_000);
  const isShown = await shown(true);
  await window.command("View: Close All Editors");
  check("which goes when it is closed", isShown && (await shown(false)));
  await window.command("View: Hide Panel");
}
