// Lenses, hints and colours after an edit of another file.
export async function refresh({ page, window, shot, check }) {
  const lens = page.locator(".codelens-decoration a").filter({ hasText: /origin of 1 finding/ });
  const hint = page.locator(".view-line span span").filter({ hasText: /grad\s+off\s+since\s+data_loader\.py:12/ });
  const shown = (what, wanted) => window.until(async () => ((await what.count()) > 0) === wanted, 10_000);
  const toggle = async () => page.keyboard.press("Control+/"); // makes the line a comment, and back

  // the victim is not open: only the server knows that it is mended
  await window.file("data_loader.py");
  await window.squiggle();
  await window.line(12);
  check("a lens stands over the origin", await shown(lens, true));
  await toggle();
  check("it goes when the line is mended", await shown(lens, false));
  await toggle();
  check("and comes back", await shown(lens, true));

  await page.keyboard.press("Control+Backslash"); // the same beside it
  await window.file("train.py");
  await window.line(27);
  check("the victim's hint names the origin", await shown(hint, true));
  await toggle();
  check("when the victim is mended, the lens in the file beside it goes", await shown(lens, false));
  await toggle();
  check("and comes back with it", await shown(lens, true));
  const glares = async () => Number((await window.style("backward")).weight) >= 700;
  check("the victim's backward glares", await window.until(glares));
  await window.command("View: Focus First Editor Group");
  await window.line(12);
  await toggle();
  check("when the origin is mended, the hints in the file beside it go", await shown(hint, false));
  check("and its backward looks calm", await window.until(async () => !(await glares())));
  const reach = page.locator(".codelens-decoration a").filter({ hasText: /^reaches all parameters of model/ });
  check("and what its loss reaches is said anew", await shown(reach, true));
  await shot("refreshed");
  await window.command("File: Revert File");
  check("all of it comes back", (await shown(hint, true)) && (await window.until(glares)));
}
