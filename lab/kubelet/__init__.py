"""Simulated nodes: does for the API server what a kubelet owes; nothing here submits or measures."""
