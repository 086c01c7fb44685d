"""Values that a Loop or Scan carries beside counters: each pattern as a map and operators."""
