"""Records of a run in, figures and pages out; nothing here starts, submits or decides anything."""
