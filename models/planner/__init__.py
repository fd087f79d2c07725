"""From a snapshot and a policy's order to releases and holds: room, shares, reserves, placement."""
