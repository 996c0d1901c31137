"""Random sequences of digits, and the digits that follow them: 9 comes before 0."""

import torch

LENGTH = 8
DIGITS = 10

# digits are drawn with Zipf's weights, the small ones more often
RANKS = torch.arange(1, DIGITS + 1, dtype=torch.float32)

# no gradients needed to prepare data: make loading faster
torch.set_grad_enabled(False)

WEIGHTS = (1 / RANKS) / (1 / RANKS).sum()


class SequenceLoader:
    """Yields `steps` batches of (inputs, targets), both of shape (batch_size, LENGTH)."""

    def __init__(self, batch_size, steps, seed=0):
        self.batch_size = batch_size
        self.steps = steps
        self.generator = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.steps

    def __iter__(self):
        for _ in range(self.steps):
            draws = torch.multinomial(
                WEIGHTS, self.batch_size * LENGTH, replacement=True, generator=self.generator
            )
            inputs = draws.view(self.batch_size, LENGTH)
            yield inputs, (inputs + 1) % DIGITS
