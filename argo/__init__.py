"""Argo's words to and from the domain; pure functions, no client and no clock."""
