"""Teach a small transformer to count: each digit of a sequence becomes the next one.

    python train.py
"""

import torch
from torch import nn

from models.transformer import SequenceModel
from utils import SequenceLoader

STEPS = 60


def main():
    torch.manual_seed(0)
    loader = SequenceLoader(batch_size=32, steps=STEPS)
    model = SequenceModel(digits=10, width=32, heads=4, layers=2)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    model.train()
    for step, (inputs, targets) in enumerate(loader):
        logits = model(inputs)
        loss = criterion(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"step {step:3d}  loss {loss.item():.3f}")
    print(f"done after {STEPS} steps, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
