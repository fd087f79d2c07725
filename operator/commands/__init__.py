"""What people type: each command reads with the rights of whoever runs it."""
