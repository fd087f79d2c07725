"""What stands inside a container: its first process and stand-ins; the standard library only."""
