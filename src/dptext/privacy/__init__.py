"""What happened and what it means: events, guarantees, and the accounting between them."""
