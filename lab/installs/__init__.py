"""Tiphys in a lab: its chart, rendered by Helm and installed as in any cluster, and its start."""
