"""The fluid model of tasks that share a node: pure, seeded, arrays in and arrays out."""
