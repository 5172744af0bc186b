"""Module that calls torch.cuda.is_available() while it is imported, as many libraries do."""

import torch

AVAILABLE = torch.cuda.is_available()
