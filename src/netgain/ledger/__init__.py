"""The ledger: where each request's time went, what handoffs cost, what techniques gained."""
