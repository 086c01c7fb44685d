"""Forms that have kernels on the device, and integers that stay on the host.

Start with `device_forms`, which writes operators that the device lacks by others. `host_facts`
says which values lie on the host, and `host_values` computes integers there.
"""
