"""Facts about sequences, and the tensors that take their place."""
