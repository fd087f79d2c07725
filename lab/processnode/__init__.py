"""One node whose pods are processes of this machine; may start processes and make mounts."""
