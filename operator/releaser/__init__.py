"""The dead man's release: opens gates when no operator lives; standard library and PyYAML only."""
