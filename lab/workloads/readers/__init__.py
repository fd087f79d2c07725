"""One module per source of traces: its format in, `lab.workloads.traces` out; nothing made up."""
