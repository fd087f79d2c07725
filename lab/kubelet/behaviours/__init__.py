"""What a pod does beyond taking time: Argo's shapes, scripts, outputs, artifacts, agents."""
