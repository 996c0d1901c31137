"""`gradline.watch` around a loop and in a notebook's kernel: the same report, and no hook left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from running import needs_torch, same_interpreter, write
from test_probe_targets import STEP

pytestmark = [needs_torch, same_interpreter]


def test_watch_in_a_loop(tmp_path: Path) -> None:
    folder = tmp_path / "program"
    write(folder, {"main.py": "from gradline import watch\n" + STEP + """
before = torch._C._set_grad_enabled, torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.save
with watch(model, opt, show=False) as seen:
    step()
    step()
after = torch._C._set_grad_enabled, torch.autograd.backward, torch.optim.Optimizer.zero_grad, torch.save
assert before == after
assert torch.overrides._get_current_function_mode_stack() == [] if hasattr(torch.overrides, "_get_current_function_mode_stack") else True
assert seen.report["steps"] == 2 and seen.report["findings"] == [], seen.report["findings"]
try:
    with watch(model, show=True) as seen:
        model(torch.ones(1, 2)).sum().detach().backward()
except RuntimeError:
    pass
assert [f["rule"] for f in seen.report["findings"]] == ["cut-graph"], seen.report["findings"]
step()
"""})  # fmt: skip
    done = subprocess.run([sys.executable, "main.py"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cut-graph" in done.stderr


CELLS = [
    STEP,
    """import gradline.watch
with gradline.watch(model, opt, show=False) as seen:
    for _ in range(3):
        hidden = model[0](torch.ones(3, 2)).detach()
        opt.zero_grad()
        model[2](hidden).pow(2).mean().backward()
        opt.step()
""",
    """found = [(f["rule"], f["at"]["file"], f["at"]["line"]) for f in seen.report["findings"]]
assert found == [("cut-graph", "<ipython-input-1-abc>", 4)], seen.report["findings"]
from gradline import watch
with watch(model, opt, show=False) as again:
    step(); step()
assert again.report["steps"] == 2 and again.report["findings"] == [], again.report["findings"]
""",
]
KERNEL = """
import linecache
scope = {"__name__": "__main__"}
for number, text in enumerate(CELLS):
    name = f"<ipython-input-{number}-abc>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), scope)
"""


def test_cells_of_a_kernel(tmp_path: Path) -> None:
    """Cells are compiled under names of their own, whose text `linecache` holds."""
    write(tmp_path, {"kernel.py": f"CELLS = {CELLS!r}\n{KERNEL}"})
    done = subprocess.run([sys.executable, "kernel.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
