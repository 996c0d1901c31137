// The colours of the words that cut: as they are computed in light, dark and high-contrast themes.
const THEMES = {
  "Dark Modern": "vs-dark",
  "Light Modern": "vs",
  "Dark High Contrast": "hc-black",
  "Light High Contrast": "hc-light",
};
const ENOUGH = 4.5; // contrast of text with what is behind it, WCAG AA

export async function themes({ page, window, shot, check }) {
  await window.file("number.py");
  await window.squiggle();
  for (const [theme, mark] of Object.entries(THEMES)) {
    await window.theme(theme);
    await page.waitForSelector(`.monaco-workbench.${mark}`);
    await page.waitForTimeout(700);
    const background = await page.locator(".monaco-editor-background").first().evaluate((e) => getComputedStyle(e).backgroundColor);
    // the light high-contrast theme colours no semantic tokens: there the extension marks the cut alone
    const isPlain = mark === "hc-light";
    const killer = await window.style("item", isPlain ? 0 : 1);
    const harmless = isPlain ? await window.plain(7) : await window.style("item", 0);
    const seen = contrast(killer.color, background);
    check(`${theme}: the cut that kills the backward glares`, Number(killer.weight) >= 700 && seen >= ENOUGH, JSON.stringify(killer) + seen);
    const calm = harmless.color !== killer.color && Number(harmless.weight) < 700;
    check(`${theme}: the one for a number looks calm`, calm, JSON.stringify(harmless));
    console.log(`      ${killer.color} on ${background}: contrast ${seen.toFixed(1)}; harmless ${harmless.color}`);
    await shot(`theme-${mark}`);
  }
  await window.theme("Dark Modern");
}

function contrast(one, other) {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(color) {
  const [r, g, b] = color.match(/[\d.]+/g).slice(0, 3).map((text) => {
    const value = Number(text) / 255;
    return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
