"""The node at work: what its server says is brought here, and what happens here is reported there."""
