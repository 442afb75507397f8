"""The KV cache: geometry, block pool, prefix index and the manager that joins them."""
