"""What is known of a sequence, and the tensors that take its place."""
