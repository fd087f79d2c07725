"""A real control plane with simulated nodes; processes and files may be touched here."""
