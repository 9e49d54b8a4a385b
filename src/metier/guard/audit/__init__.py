"""The audit trail: what is recorded, how it is kept, proved, and handed on."""
