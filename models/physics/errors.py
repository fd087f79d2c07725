"""What can go wrong in the physics: only the caller's values.

PhysicsError   a value that no task, node or call can have; the sentence says which and what to do
"""


class PhysicsError(ValueError):
    """A value is impossible; nothing was changed."""
