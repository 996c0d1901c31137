"""The model. There is nothing wrong with it."""

import torch
from torch import nn


class SequenceModel(nn.Module):
    """A transformer encoder that says a digit for each place of a sequence."""

    def __init__(self, digits, width, heads, layers, length=16):
        super().__init__()
        self.embed = nn.Embedding(digits, width)
        self.position = nn.Parameter(torch.zeros(length, width))
        block = nn.TransformerEncoderLayer(width, heads, dim_feedforward=2 * width, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, digits)

    def forward(self, tokens):
        hidden = self.embed(tokens) + self.position[: tokens.shape[1]]
        return self.head(self.encoder(hidden))
