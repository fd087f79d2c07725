"""Argo's own examples, run as its users would; knows what each must come to, not how pods work."""
