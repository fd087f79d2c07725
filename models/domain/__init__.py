"""The words of the product as frozen facts: standard library only, nothing here waits or writes."""
