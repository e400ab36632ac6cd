"""Host libraries."""
