"""The admission webhook: answers in time, changes only what was decided, fails open."""
