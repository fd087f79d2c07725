"""Orders of release as pure functions of a snapshot; where a pod goes is decided by the planner."""
