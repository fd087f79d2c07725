"""What crosses a border between our processes: key rings, signatures, stamps and messages, pure."""
