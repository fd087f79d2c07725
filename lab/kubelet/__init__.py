"""Simulated nodes: what a kubelet owes the API server; nothing here submits or measures."""
