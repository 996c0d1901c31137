"""What the training script needs besides the model."""

from .data_loader import SequenceLoader

__all__ = ["SequenceLoader"]
