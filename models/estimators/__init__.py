"""From history rows to estimates of durations, widths and remaining work: pure, no chance."""
