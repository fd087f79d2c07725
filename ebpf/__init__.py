"""The node agent: reads kernel counters and exports them as metrics; steers nothing."""
