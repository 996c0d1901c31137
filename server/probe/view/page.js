"use strict";
(() => {
  const report = JSON.parse(document.getElementById("report").textContent);
  const editor = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : null;
  const rows = report.parameters || [];
  const modules = report.modules || [];

  // ------------------------------------------------------------------ small helpers
  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") node.className = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (name === "style") node.style.cssText = value;
      else node.setAttribute(name, value);
    }
    for (const child of children) if (child !== null && child !== undefined) node.append(child);
    return node;
  };
  const css = (name) => getComputedStyle(document.body).getPropertyValue(name).trim();
  const slug = (text) => text.replace(/ /g, "-");
  const short = (value) => (typeof value === "number" ? value.toExponential(2) : value ?? "–");
  const into = (id, title, ...children) => {
    const section = document.getElementById(id);
    section.replaceChildren(el("h2", {}, title), ...children);
  };
  const relative = (file) => {
    const [path, cell] = file.split("#cell=");
    const inside = path.startsWith(report.cwd + "/") ? path.slice(report.cwd.length + 1) : path;
    return cell === undefined ? inside : `${inside} cell ${Number(cell) + 1}`; // people count from 1
  };
  const jump = (at) => {
    if (!at) return el("span", { class: "faint" }, "no single line");
    const text = `${relative(at.file)}:${at.line}`;
    const path = at.file.split("#cell=")[0];
    if (editor) {
      return el("a", { class: "mono", href: "#", onclick: (event) => {
        event.preventDefault();
        editor.postMessage({ type: "open", file: path, line: at.line, cell: at.file.split("#cell=")[1] ?? null });
      } }, text);
    }
    return el("a", { class: "mono", href: `vscode://file${encodeURI(path.startsWith("/") ? path : `/${path}`)}:${at.line}` }, text);
  };
  const source = (at) => {
    const text = at && report.sources[at.file] && report.sources[at.file][at.line];
    return text ? el("pre", {}, text) : null;
  };
  const table = (titles, lines, numbers = []) => el("table", {},
    el("thead", {}, el("tr", {}, ...titles.map((t, i) => el("th", numbers.includes(i) ? { class: "number" } : {}, t)))),
    el("tbody", {}, ...lines.map((cells) => el("tr", {}, ...cells.map((c, i) =>
      el("td", numbers.includes(i) ? { class: "number" } : {}, c ?? ""))))));

  // ------------------------------------------------------------------ head, findings, verdicts
  const who = report.interpreter;
  document.getElementById("head").append(
    el("h1", {}, report.command),
    el("p", {}, `${report.steps ?? 0} optimizer steps, ${report.backward_calls ?? 0} backward calls; stopped: ${report.stopped}; ` +
      `${report.seconds ?? "?"} s; Python ${who.python}, torch ${who.torch}`));

  const judged = (report.verdicts || []).length > 0;
  into("findings", report.findings.length ? "Findings" : "Nothing found", ...report.findings.map((f) => {
    const names = f.parameters || [];
    return el("article", { class: `finding ${f.confidence}` },
      el("p", {}, el("span", { class: "badge" }, f.rule), ` ${f.confidence} `, jump(f.at),
        judged && !(f.static || []).length ? el("span", { class: "faint" }, " seen in the run alone") : null),
      el("p", {}, f.message), source(f.at),
      ...f.evidence.map((e) => el("p", { class: "faint" }, jump(e.at), ` ${e.note}`)),
      names.length ? el("details", {}, el("summary", { class: "faint" }, `${f.parameter_count} parameters`),
        el("p", { class: "mono" }, names.join(", "))) : null);
  }));
  if (judged) {
    into("verdicts", "Static findings, and what the run says of them", table(["verdict", "code", "place", "because"],
      report.verdicts.map((v) => [el("span", { class: `badge ${slug(v.verdict)}` }, v.verdict), v.code, jump(v), v.because])));
  }

  // ------------------------------------------------------------------ modules: a tree of rows, only the visible ones drawn
  const tree = [];
  const stack = [];
  modules.forEach((module, index) => {
    stack.length = module.depth;
    const node = { label: module.label, type: module.type, depth: module.depth, at: module.at, index: tree.length,
      parent: module.depth ? stack[module.depth - 1] : null, open: module.depth < 1 || modules.length < 60, counts: {}, square: 0,
      calls: module.calls, off: module.calls_off, compiled: module.compiled, leaf: false };
    tree.push(node);
    stack[module.depth] = node;
    for (const i of module.parameters) {
      const row = rows[i];
      tree.push({ label: row.name.split(".").pop(), type: `[${row.shape.join(", ")}]`, depth: module.depth + 1, at: module.at,
        index: tree.length, parent: node, open: false, leaf: true, row, counts: {}, square: 0 });
      for (let above = node; above; above = above.parent) {
        above.counts[row.grad] = (above.counts[row.grad] || 0) + 1;
        if (typeof row.norm === "number") above.square += row.norm * row.norm;
      }
    }
  });
  const norms = rows.map((r) => r.norm).filter((n) => typeof n === "number" && n > 0);
  const totals = tree.map((n) => Math.sqrt(n.square)).filter((n) => n > 0);
  const low = Math.log10(Math.min(...norms.concat(totals).slice(0, 100000), 1e300));
  const high = Math.log10(Math.max(...totals.concat(norms).slice(0, 100000), 1e-300));
  const share = (norm) => (high > low ? 4 + (96 * (Math.log10(norm) - low)) / (high - low) : 100);
  const HEIGHT = 24;
  let wanted = "";
  let troubled = false;
  const bad = (node) => ["none", "zero", "not finite"].some((s) => (node.row ? node.row.grad === s : node.counts[s]));
  const visible = () => tree.filter((node) => {
    if (troubled && !bad(node)) return false;
    if (wanted) return node.row ? node.row.name.toLowerCase().includes(wanted) : false;
    for (let above = node.parent; above; above = above.parent) if (!above.open) return false;
    return true;
  });
  const draw = (node, top, redraw) => {
    const state = node.row ? node.row.grad : null;
    const norm = node.row ? node.row.norm : Math.sqrt(node.square);
    const track = el("div", { class: "track" });
    if (typeof norm === "number" && norm > 0) track.append(el("div", { class: "bar", style: `width:${share(norm)}%` }));
    else if (state) track.append(el("div", { class: `bar ${slug(state)}` }));
    const words = [];
    if (typeof norm === "number" && norm > 0) words.push(short(norm));
    if (state && state !== "ok") words.push(el("span", { class: slug(state) }, state === "none" ? "None" : state));
    for (const s of ["none", "zero", "not finite", "frozen"]) {
      if (node.counts[s]) words.push(el("span", { class: slug(s) }, ` ${node.counts[s]} ${s === "none" ? "None" : s}`));
    }
    if (node.row && node.row.optimizer === null && node.row.requires_grad) words.push(" in no optimizer");
    if (!node.leaf && node.compiled) words.push(el("span", { class: "faint" }, " inside compiled code"));
    else if (!node.leaf && !node.calls) words.push(el("span", { class: "faint" }, " never called"));
    if (!node.leaf && node.off) words.push(el("span", { class: "off" }, ` ${node.off}/${node.calls} calls off`));
    const hasParts = !node.leaf && tree[node.index + 1] && tree[node.index + 1].depth > node.depth;
    const detail = node.row ? `${node.row.name}\nupdate/weight ${short(node.row.ratio)}, ${node.row.dtype} on ${node.row.device}` : "";
    return el("div", { class: "row", style: `top:${top}px`, title: detail },
      el("div", { class: "name", style: `padding-left:${0.4 + node.depth * 1.1}rem` },
        hasParts ? el("button", { "aria-expanded": String(node.open), "aria-label": node.label, onclick: () => { node.open = !node.open; redraw(); } }, node.open ? "▾" : "▸")
          : el("button", { tabindex: "-1", "aria-hidden": "true" }, ""),
        node.at && !node.leaf ? Object.assign(jump(node.at), { textContent: node.label }) : node.label,
        el("span", { class: "faint" }, ` ${node.type}`)),
      track, el("div", {}, ...words));
  };
  if (tree.length) {
    const list = el("div", { id: "list", role: "tree", tabindex: "0" });
    const inner = el("div", { style: "position:relative" });
    list.append(inner);
    let shown = [];
    const paint = () => {
      const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
      const last = Math.min(shown.length, first + Math.ceil(list.clientHeight / HEIGHT) + 10);
      inner.replaceChildren(...shown.slice(first, last).map((node, i) => draw(node, (first + i) * HEIGHT, rebuild)));
    };
    const rebuild = () => {
      shown = visible();
      inner.style.height = `${shown.length * HEIGHT}px`;
      list.style.height = shown.length * HEIGHT < 600 ? `${shown.length * HEIGHT + 2}px` : "";
      paint();
    };
    list.addEventListener("scroll", paint);
    const search = el("input", { type: "search", placeholder: "parameter name", "aria-label": "parameter name", oninput: (e) => { wanted = e.target.value.toLowerCase(); rebuild(); } });
    const box = el("input", { type: "checkbox", onchange: (e) => { troubled = e.target.checked; rebuild(); } });
    into("modules", "Modules in forward order", el("div", { class: "tools" }, search, el("label", {}, box, " only None, zero and not finite"),
      el("button", { onclick: () => { const open = tree.some((n) => !n.leaf && !n.open); tree.forEach((n) => { n.open = open; }); rebuild(); } }, "open or close all")), list);
    rebuild();
    addEventListener("resize", paint);
  }

  // ------------------------------------------------------------------ charts
  const charts = [];
  const axis = (extra) => ({ stroke: css("--faint"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") }, ...extra });
  const width = () => Math.max(320, document.querySelector("main").clientWidth);
  const fresh = (host, build) => {
    let chart = null;
    const make = () => { if (chart) chart.destroy(); host.replaceChildren(); chart = build(host); };
    make();
    charts.push({ make, size: () => chart.setSize({ width: width(), height: chart.height }) });
  };
  const ordered = [];
  for (const node of tree) if (node.row) ordered.push(node.row);
  if (ordered.length && norms.length) {
    const floor = Math.pow(10, Math.floor(Math.log10(norms.reduce((a, b) => Math.min(a, b)))) - 1.5);
    const ceiling = norms.reduce((a, b) => Math.max(a, b)) * 3;
    const xs = ordered.map((_, i) => i);
    const of = (test, value) => ordered.map((row) => (test(row) ? value(row) : null));
    const data = [xs,
      of((r) => r.grad === "ok", (r) => (typeof r.norm === "number" && r.norm > 0 ? r.norm : null)),
      of((r) => r.grad === "none", () => floor * 1.3), of((r) => r.grad === "zero", () => floor * 4), of((r) => r.grad === "not finite", () => ceiling)];
    const host = el("div");
    into("norms", "Gradient norm of each parameter, in forward order (log scale; drag to zoom)", host);
    fresh(host, (into_) => new uPlot({
      width: width(), height: 240, scales: { x: { time: false, range: (u, a, b) => [a - 0.7, b + 0.7] }, y: { distr: 3 } },
      axes: [axis({ values: () => [] , size: 12 }), axis({ size: 64, values: (u, vs) => vs.map((v) => (v === null ? "" : Number(v).toExponential(0))) })],
      legend: { live: true },
      series: [{ label: "parameter", value: (u, v) => (v === null ? "–" : ordered[v] ? ordered[v].name : "–") },
        { label: "norm", stroke: css("--good"), fill: css("--good"), paths: uPlot.paths.bars({ size: [0.7, 40, 1] }), points: { show: false }, value: (u, v) => short(v) },
        ...[["None", "--none"], ["zero", "--zero"], ["not finite", "--odd"]].map(([label, color]) => ({
          label, stroke: css(color), paths: () => null, points: { show: true, size: 7, fill: css(color) }, value: (u, v) => (v === null ? "–" : "yes") }))],
    }, data, into_));
  }
  const timeline = report.grad_mode ? report.grad_mode.timeline : [];
  if (report.grad_mode && report.grad_mode.changes.length) {
    const host = el("div");
    into("mode", "Grad mode over the run", host, table(["mode", "place", "by", "times"], report.grad_mode.changes.map((c) => [
      el("span", { class: c.mode ? "ok" : "off" }, c.mode ? "on" : "off"), jump(c.decorated || c.at || c.library),
      `${c.via}${["called", "with"].includes(c.how) ? "" : ` (${c.how})`}`, String(c.count)])));
    if (timeline.length) {
      const start = timeline[0].s;
      const end = Math.max(timeline[timeline.length - 1].s, (report.seconds || 0) < 3600 ? timeline[timeline.length - 1].s : 0);
      const xs = [start - 1e-6, ...timeline.map((t) => t.s), end + 1e-3];
      const ys = [timeline[0].mode ? 0 : 1, ...timeline.map((t) => (t.mode ? 1 : 0))];
      ys.push(ys[ys.length - 1]);
      fresh(host, (into_) => new uPlot({
        width: width(), height: 130, scales: { x: { time: false }, y: { range: [-0.1, 1.2] } },
        axes: [axis({ values: (u, vs) => vs.map((v) => `${+v.toFixed(3)} s`) }), axis({ splits: () => [0, 1], values: () => ["off", "on"], size: 44 })],
        legend: { live: true },
        series: [{ label: "time", value: (u, v, s, i) => (i === null || i === undefined ? "–" : timeline[i - 1] && timeline[i - 1].at ? `${relative(timeline[i - 1].at.file)}:${timeline[i - 1].at.line}` : `${short(v)} s`) },
          { label: "grad mode", stroke: css("--frozen"), fill: `${css("--frozen")}33`, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false }, value: (u, v) => (v === null ? "–" : v ? "on" : "off") }],
      }, [xs, ys], into_));
    }
  }
  addEventListener("resize", () => charts.forEach((c) => c.size()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((c) => c.make()));
  new MutationObserver(() => charts.forEach((c) => c.make())).observe(document.body, { attributes: true, attributeFilter: ["class"] });

  // ------------------------------------------------------------------ cuts, steps, ranks, notes
  const cuts = report.cuts || [];
  if (cuts.length) {
    into("cuts", "Cuts of values that required grad", table(["place", "line", "cut by", "reaches a loss", "parameters upstream", "times"], cuts.map((c) => [
      jump(c.at), source(c.at), `${c.op} (${c.kind})`, c.feeds_the_loss ? el("span", { class: "zero" }, "yes") : "no",
      `${c.upstream}${c.upstream_without_grad ? `, ${c.upstream_without_grad} without gradient` : ""}`, String(c.count)]), [4, 5]));
  }
  const ms = (s) => (s === null || s === undefined ? "–" : `${(s * 1000).toFixed(1)} ms`);
  const mib = (b) => (b ? `${Math.round(b / 1048576)} MiB` : "–");
  if ((report.iterations || []).length) {
    const phase = (i, name) => [ms(i[`${name}_s`]), i[`${name}_memory`] ? mib(i[`${name}_memory`]) : null,
      i[`${name}_gpu_memory`] ? `GPU ${mib(i[`${name}_gpu_memory`])}` : null].filter(Boolean).join(", ");
    into("steps", "Optimizer steps: time and peak memory", table(["optimizer", "forward", "backward", "step"],
      report.iterations.slice(0, 50).map((i) => [i.optimizer, phase(i, "forward"), phase(i, "backward"), phase(i, "step")]), [1, 2, 3]));
  }
  if (report.compile) {
    const events = [...report.compile.breaks, ...report.compile.recompiles];
    into("compile", `torch.compile: ${report.compile.graphs} graphs, ${report.compile.breaks.length} graph breaks, ${report.compile.recompiles.length} recompilations`,
      table(["", "place", "times", "reason"], events.map((e) => [e.kind, jump(e.at), String(e.count), e.reason]), [2]));
  }
  if (report.ranks) {
    into("ranks", "Ranks", table(["rank", "steps", "parameters", "stopped"], report.ranks.map((r) => [String(r.rank), String(r.steps),
      Object.entries(r.grad_states).map(([s, n]) => `${n} ${s}`).join(", "), r.stopped])),
      ...(report.differences || []).map((d) => el("p", { class: "none" }, d.message)),
      (report.differences || []).length ? null : el("p", { class: "ok" }, "No differences between them."));
  }
  const kept = (report.isolation && report.isolation.kept_out) || [];
  const notes = [...(report.notes || [])];
  if (report.gradcheck) notes.unshift(`gradient check: ${report.gradcheck.words}`);
  if (kept.length) notes.push(`kept out of the project: ${kept.slice(0, 20).map((k) => k.path).join(", ")}`);
  if (report.isolation && report.isolation.why) notes.push(`files: ${report.isolation.why}`);
  for (const w of (report.writes || []).slice(0, 20)) if (report.isolation.kind !== "overlay") notes.push(`written: ${w.path}`);
  if (notes.length) into("notes", "Notes", el("ul", {}, ...notes.map((n) => el("li", {}, n))));
})();
