"""What is learned, estimated or simulated: values in, values out; no network, no cluster."""
