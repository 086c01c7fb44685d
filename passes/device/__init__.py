"""Forms that have kernels on the device, and integers that stay on the host."""
