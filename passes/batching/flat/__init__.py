"""Samples that differ along several axes: rows one behind the other, and sizes."""
