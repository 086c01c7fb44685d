"""Where the nodes of a model will run: predicted from tables of kernels, without a device."""
