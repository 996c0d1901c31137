"""Trainers that own the loop: the probe sees through them. Skipped where they are not installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from running import needs, needs_torch, probe, said, write

pytestmark = needs_torch
LIGHTNING = """
import torch, lightning as L
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.enc, self.dec = nn.Linear(4, 8), nn.Linear(8, 1)
    def training_step(self, batch, i):
        x, y = batch
        h = self.enc(x).relu()@CUT
        loss = (self.dec(h) - y).pow(2).mean()
        self.log("loss", loss)
        return loss
    def validation_step(self, batch, i):
        x, y = batch
        self.log("val", (self.dec(self.enc(x)) - y).abs().mean())
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)
if __name__ == "__main__":
    data = DataLoader(TensorDataset(torch.randn(32, 4), torch.randn(32, 1)), 8)
    L.Trainer(max_epochs=1, accelerator="cpu", enable_progress_bar=False).fit(Lit(), data, data)
"""
TRANSFORMERS = """
import torch
from torch import nn
from transformers import Trainer, TrainingArguments, PretrainedConfig, PreTrainedModel
class Config(PretrainedConfig):
    model_type = "tiny"
class Tiny(PreTrainedModel):
    config_class = Config
    def __init__(self, config):
        super().__init__(config)
        self.enc, self.dec = nn.Linear(4, 8), nn.Linear(8, 1)
        self.post_init()
    def _init_weights(self, module): pass
    def forward(self, x=None, labels=None):
        with @MODE:
            h = self.enc(x).relu()
        out = self.dec(h)
        return {"loss": (out.squeeze(-1) - labels).pow(2).mean(), "logits": out}
data = [{"x": torch.randn(4), "labels": torch.randn(())} for _ in range(32)]
if __name__ == "__main__":
    args = TrainingArguments("out", max_steps=4, per_device_train_batch_size=8, report_to=[], use_cpu=True, logging_steps=1)
    Trainer(Tiny(Config()), args, train_dataset=data).train()
"""


@pytest.mark.parametrize("cut", ["", ".detach()"])
def test_lightning(tmp_path: Path, cut: str) -> None:
    needs("lightning")
    folder = tmp_path / "program"
    write(folder, {"main.py": LIGHTNING.replace("@CUT", cut)})
    report = probe(folder, "main.py", check=True, timeout=300)
    assert report["exception"] is None and report["steps"] == 2
    assert said(report) == ({("cut-graph", "main.py", 10)} if cut else set()), report["findings"]
    assert {v["verdict"] for v in report["verdicts"]} <= {"confirmed"}, report["verdicts"]


@pytest.mark.parametrize("mode", ["torch.enable_grad()", "torch.no_grad()"])
def test_transformers_trainer(tmp_path: Path, mode: str) -> None:
    needs("transformers", "accelerate")
    folder = tmp_path / "program"
    write(folder, {"main.py": TRANSFORMERS.replace("@MODE", mode)})
    report = probe(folder, "main.py", check=True, timeout=300)
    assert report["exception"] is None and report["steps"] == 2
    assert said(report) == ({("cut-graph", "main.py", 14)} if "no_grad" in mode else set()), report["findings"]
    assert {v["verdict"] for v in report["verdicts"]} <= {"confirmed"}, report["verdicts"]
