"""What Prometheus reads of simulated nodes, under the names that a real cluster has; reads only."""
