"""The Map operator: one node that says what a map reads, applies and yields."""

from passes.maps.operator import DOMAIN, OP_TYPE, is_map
from passes.maps.sites import read_map, write_map

__all__ = ["DOMAIN", "OP_TYPE", "is_map", "read_map", "write_map"]
