"""Traces become Argo Workflows here; files are read, and only `submissions` talks to a cluster."""
